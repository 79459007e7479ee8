// Counters, log levels and traces.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "farwrite/c_about.h"
#include "farwrite/c_log.h"
#include "python/described.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/module.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;

void log(const char* level, const std::string& text) {
  raise_if_error(without_gil([&] { return taken(fw_log(level, text.data(), text.size())); }));
}

// The rows of the TensorFlow plug-in, each as (name, meaning, whether it only grows).
nb::list plugin_counters() {
  const nb::object counters = described(fw_about_counters);
  const nb::object plugin = counters["plugin"];
  nb::list rows;
  for (const nb::handle row : plugin) {
    rows.append(nb::make_tuple(row["name"], row["meaning"], row["only_grows"]));
  }
  return rows;
}

}  // namespace

void bind_observability(nb::module_& module) {
  module.def(
      "counters", [] { return nb::object(described(fw_about_counters)["tables"]); },
      nb::sig("def counters() -> dict[str, list[dict[str, typing.Any]]]"));
  module.def("plugin_counters", &plugin_counters,
             nb::sig("def plugin_counters() -> list[tuple[str, str, bool]]"));
  module.def(
      "set_log_level",
      [](const std::string& name) {
        raise_if_error(taken(fw_set_log_level(c_text("set the log level", "the level", name))));
      },
      nb::arg("name"));
  module.def("log_level", [] { return std::string(fw_log_level()); });
  module.def("log_warning", [](const std::string& text) { log("warning", text); }, nb::arg("text"));
  module.def("log_info", [](const std::string& text) { log("info", text); }, nb::arg("text"));
  module.def(
      "write_trace", [] { raise_if_error(without_gil([] { return taken(fw_write_trace()); })); },
      "Write the events so far to the file of FARWRITE_TRACE.");
  module.def(
      "stop_trace", [] { raise_if_error(without_gil([] { return taken(fw_stop_trace()); })); },
      "Write the events so far to the file of FARWRITE_TRACE, and end tracing.");
}

}  // namespace farwrite::python
