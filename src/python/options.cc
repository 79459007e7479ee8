// The options of a device as Python sets and shows them.
#include "python/options.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>

#include "farwrite/c_about.h"
#include "python/described.h"
#include "python/errors.h"
#include "python/module.h"

namespace farwrite::python {

namespace nb = nanobind;

Result<const fw_device_options*> Options::fields() const {
  const fw_device_options* fields = nullptr;
  FARWRITE_RETURN_IF_ERROR(taken(fw_options_fields(handle(), &fields)));
  return fields;
}

namespace {

// What is wrong with `text`; empty: nothing.
std::string set_option(Options& options, const std::string& name, const std::string& text) {
  if (text.find('\0') != std::string::npos) return "holds a zero byte; use another text";
  const Status set = taken(fw_options_set(options.handle(), name.c_str(), text.c_str()));
  if (set.code() == StatusCode::kNotFound) throw nb::attribute_error(name.c_str());
  return set.message();
}

void set_token(Options& options, const std::optional<nb::bytes>& token) {
  raise_if_error(taken(token.has_value()
                           ? fw_options_set_token(options.handle(), token->c_str(), token->size())
                           : fw_options_set_token(options.handle(), nullptr, 0)));
}

nb::object value_of(const Options& options, const std::string& name) {
  Text json;
  const Status read = taken(fw_options_value(options.handle(), name.c_str(), keep_text, &json));
  if (read.code() == StatusCode::kNotFound) throw nb::attribute_error(name.c_str());
  raise_if_error(read);
  return parse_json(json.take());
}

// The rows of one table, each as the arguments of farwrite.options.option.Option.
nb::object rows(const char* table) { return described(fw_about_options)[table]; }

}  // namespace

void bind_options(nb::module_& module) {
  nb::class_<Options>(module, "DeviceOptions")
      .def(nb::init<>())
      .def("set", &set_option, nb::arg("name"), nb::arg("text"),
           "Return what is wrong with `text`; empty: nothing.")
      .def("set_token", &set_token, nb::arg("token").none())
      .def(
          "check", [](const Options& options) { raise_if_error(options.fields().status()); },
          "Raise the error with which no device opens with these options.")
      .def("__getattr__", &value_of, nb::arg("name"),
           nb::sig("def __getattr__(self, name: str) -> typing.Any"));
  module.def(
      "device_options", [] { return rows("device"); },
      nb::sig("def device_options() -> list[dict[str, typing.Any]]"));
  module.def(
      "plugin_options", [] { return rows("plugin"); },
      nb::sig("def plugin_options() -> list[dict[str, typing.Any]]"));
  module.def(
      "grpc_options", [] { return rows("grpc"); },
      nb::sig("def grpc_options() -> list[dict[str, typing.Any]]"));
  module.def(
      "check_variable",
      [](const std::string& variable) {
        raise_if_error(taken(fw_check_variable(c_text("check a variable", "its name", variable))));
      },
      nb::arg("variable"),
      "Raise what the library would for the text of a variable that is no keyword of a device.");
}

}  // namespace farwrite::python
