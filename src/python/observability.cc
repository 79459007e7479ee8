// Counters, log levels and traces.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <string>

#include "box/box.h"
#include "core/counter_table.h"
#include "core/log.h"
#include "core/trace.h"
#include "device/channel.h"
#include "device/device.h"
#include "python/errors.h"
#include "python/gil.h"
#include "python/module.h"
#include "tensorflow/stats/counter_table.h"
#include "transfer/tensor.h"

namespace farwrite::python {
namespace {

namespace nb = nanobind;

void log(core::LogLevel level, const std::string& text) {
  without_gil([&] { core::log(level, text); });
}

// The rows of one table, each as the arguments of farwrite.metrics.counter.Counter.
template <typename Stats>
void add_table(nb::dict& tables) {
  const core::CounterTable<Stats>& table = core::counters<Stats>();
  const auto to_str = [](std::string_view text) { return nb::str(text.data(), text.size()); };
  nb::list rows;
  for (const core::CounterRow<Stats>& row : table.rows) {
    nb::dict labels;
    if (!row.operation.empty()) labels["operation"] = to_str(row.operation);
    if (!row.direction.empty()) labels["direction"] = to_str(row.direction);
    nb::dict counter;
    counter["name"] = to_str(row.name);
    counter["meaning"] = to_str(row.help);
    counter["metric"] =
        row.metric.empty() ? nb::str("") : to_str(table.prefix) + to_str(row.metric);
    counter["labels"] = labels;
    rows.append(counter);
  }
  tables[to_str(table.name)] = rows;
}

nb::dict counter_tables() {
  nb::dict tables;
  add_table<MemoryStats>(tables);
  add_table<AdapterStats>(tables);
  add_table<GpuStats>(tables);
  add_table<DeviceStats>(tables);
  add_table<ChannelStats>(tables);
  add_table<TensorStats>(tables);
  add_table<box::ClientStats>(tables);
  add_table<box::ServerStats>(tables);
  return tables;
}

// The rows of the TensorFlow plug-in, each as (name, meaning, whether it only grows).
nb::list plugin_counters() {
  nb::list rows;
#define FARWRITE_PLUGIN_ROW(name, help) rows.append(nb::make_tuple(#name, help, true));
  FARWRITE_PLUGIN_COUNTERS(FARWRITE_PLUGIN_ROW)
#undef FARWRITE_PLUGIN_ROW
#define FARWRITE_PLUGIN_ROW(name, help) rows.append(nb::make_tuple(#name, help, false));
  FARWRITE_PLUGIN_GAUGES(FARWRITE_PLUGIN_ROW)
#undef FARWRITE_PLUGIN_ROW
  return rows;
}

}  // namespace

void bind_observability(nb::module_& module) {
  module.def("counters", &counter_tables,
             nb::sig("def counters() -> dict[str, list[dict[str, typing.Any]]]"));
  module.def("plugin_counters", &plugin_counters,
             nb::sig("def plugin_counters() -> list[tuple[str, str, bool]]"));
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
