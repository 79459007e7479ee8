// Log levels and traces of this process.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "core/log.h"
#include "core/trace.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/module.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;

void log(core::LogLevel level, const std::string& text) {
  without_gil([&] { core::log(level, text); });
}

}  // namespace

void bind_observability(nb::module_& module) {
  module.def(
      "set_log_level",
      [](const std::string& name) { raise_if_error(core::set_log_level_by_name(name)); },
      nb::arg("name"));
  module.def("log_level", [] { return std::string(core::log_level_name()); });
  module.def(
      "log_warning", [](const std::string& text) { log(core::LogLevel::kWarning, text); },
      nb::arg("text"));
  module.def(
      "log_info", [](const std::string& text) { log(core::LogLevel::kInfo, text); },
      nb::arg("text"));
  module.def(
      "write_trace", [] { raise_if_error(without_gil([] { return core::write_trace(); })); },
      "Write the events so far to the file of FARWRITE_TRACE.");
  module.def(
      "stop_trace", [] { raise_if_error(without_gil([] { return core::stop_trace(); })); },
      "Write the events so far to the file of FARWRITE_TRACE, and end tracing.");
}

}  // namespace farwrite::python
