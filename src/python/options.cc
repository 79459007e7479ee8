// The options of a device as Python sets and shows them: all from core/option_table.h.
#include "farwrite/options.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <span>
#include <string>
#include <type_traits>

#include "core/log.h"
#include "core/option_table.h"
#include "core/token_file.h"
#include "device/device_state.h"
#include "memory/copy.h"
#include "python/errors.h"
#include "python/module.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;
using core::Option;

nb::str to_str(std::string_view text) { return nb::str(text.data(), text.size()); }

// The value of a field, as a keyword has it.
nb::object to_object(core::OptionField field) {
  return std::visit(
      [](auto* value) -> nb::object {
        using Value = std::remove_pointer_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::string> ||
                      std::is_same_v<Value, std::string_view>) {
          return to_str(*value);
        } else if constexpr (std::is_same_v<Value, Endpoint>) {
          return to_str(value->to_string());
        } else if constexpr (std::is_same_v<Value, PortRange>) {
          if (*value == PortRange()) return to_str("");
          return to_str(std::to_string(value->first) + "-" + std::to_string(value->last));
        } else if constexpr (std::is_same_v<Value, HugePages>) {
          return to_str(core::kHugePagesNames[static_cast<std::size_t>(*value)]);
        } else if constexpr (std::is_same_v<Value, std::chrono::nanoseconds>) {
          return nb::float_(std::chrono::duration<double>(*value).count());
        } else if constexpr (std::is_same_v<Value, std::vector<FabricKind>>) {
          nb::list names;
          for (const FabricKind kind : *value) names.append(to_str(to_string(kind)));
          return names;
        } else if constexpr (std::is_same_v<Value, Token>) {
          return nb::none();  // secret
        } else {
          return nb::cast(*value);
        }
      },
      field);
}

const Option& find(const std::string& name) {
  const Option* const option = core::find_keyword(name);
  if (option == nullptr || option->field == nullptr) throw nb::attribute_error(name.c_str());
  return *option;
}

void set_token(DeviceOptions& options, const std::optional<nb::bytes>& token) {
  options.token =
      token.has_value() ? Token(std::string(token->c_str(), token->size())) : Token::none();
}

// The rows, each as the arguments of farwrite.options.option.Option.
nb::list rows(std::span<const Option> options) {
  DeviceOptions defaults;
  nb::list rows;
  for (const Option& option : options) {
    nb::list places;
    for (const auto& [place, name] : {std::pair{core::kInDevice, "device"},
                                      {core::kInPlugin, "plug-in"},
                                      {core::kInGrpc, "gRPC"},
                                      {core::kInCommands, "command line"},
                                      {core::kInTests, "tests"}}) {
      if ((option.places & place) != 0) places.append(name);
    }
    nb::list choices;
    for (const std::string_view word : option.choices) choices.append(to_str(word));
    nb::dict row;
    row["name"] = to_str(option.name);
    row["variable"] = to_str(option.variable);
    row["places"] = nb::tuple(places);
    row["kind"] = to_str(core::shown(option.kind));
    row["default"] = option.default_text.empty() ? to_object(option.field(defaults))
                                                 : nb::object(to_str(option.default_text));
    row["meaning"] = to_str(option.help);
    row["choices"] = nb::tuple(choices);
    rows.append(row);
  }
  return rows;
}

Status check_variable(std::string_view variable) {
  if (variable == "FARWRITE_LOG") return core::check_log_variable();
  if (variable == "FARWRITE_COPY_KERNEL") return memory::check_copy_kernel_variable();
  if (variable == "FARWRITE_TOKEN_FILE") return core::check_token_file_variable();
  return core::check_variable(variable);
}

}  // namespace

void bind_options(nb::module_& module) {
  nb::class_<DeviceOptions>(module, "DeviceOptions")
      .def(nb::init<>())
      .def(
          "set",
          [](DeviceOptions& options, const std::string& name, const std::string& text) {
            const Option& option = find(name);
            return core::parse(option, text, option.field(options));
          },
          nb::arg("name"), nb::arg("text"), "Return what is wrong with `text`; empty: nothing.")
      .def("set_token", &set_token, nb::arg("token").none())
      .def(
          "check",
          [](const DeviceOptions& options) { raise_if_error(device::check_options(options)); },
          "Raise the error with which no device opens with these options.")
      .def(
          "__getattr__",
          [](DeviceOptions& options, const std::string& name) {
            return to_object(find(name).field(options));
          },
          nb::arg("name"), nb::sig("def __getattr__(self, name: str) -> typing.Any"));
  module.def(
      "device_options", [] { return rows(core::device_options()); },
      nb::sig("def device_options() -> list[dict[str, typing.Any]]"));
  module.def(
      "plugin_options", [] { return rows(core::plugin_options()); },
      nb::sig("def plugin_options() -> list[dict[str, typing.Any]]"));
  module.def(
      "grpc_options", [] { return rows(core::grpc_options()); },
      nb::sig("def grpc_options() -> list[dict[str, typing.Any]]"));
  module.def(
      "check_variable",
      [](const std::string& variable) { raise_if_error(check_variable(variable)); },
      nb::arg("variable"),
      "Raise what the library would for the text of a variable that is no keyword of a device.");
}

}  // namespace farwrite::python
