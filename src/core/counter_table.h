// The counters of the public Stats structs: one row for each field. From the rows come Prometheus'
// text, the objects that stats() returns in Python, and docs/reference/metrics.md.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "farwrite/box_types.h"
#include "farwrite/channel_types.h"
#include "farwrite/device_types.h"
#include "farwrite/stream_types.h"
#include "farwrite/tensor_types.h"

namespace farwrite::core {

template <typename Stats>
struct CounterRow {
  std::string_view name;  // of the field, in Python as well
  std::uint64_t Stats::* field;
  std::string_view help;
  // Without the prefix of the table. What only grows ends in "_total"; any other is a gauge. Empty:
  // no metric. Rows of one metric stand together, and their labels tell them apart.
  std::string_view metric = {};
  std::string_view operation = {};
  std::string_view direction = {};    // "out": what this device sent or moved to a peer
  std::string_view metric_help = {};  // of a metric with several rows, in the first one

  // The field is in nanoseconds, and the metric in seconds, Prometheus' unit of time.
  constexpr bool is_time() const { return metric.ends_with("_seconds_total"); }
  constexpr bool only_grows() const { return metric.ends_with("_total"); }
};

template <typename Stats>
struct CounterTable {
  std::string_view name;    // of the struct, in Python as well
  std::string_view prefix;  // of its metrics
  std::span<const CounterRow<Stats>> rows;
};

template <typename Stats>
const CounterTable<Stats>& counters();
template <>
const CounterTable<MemoryStats>& counters();
template <>
const CounterTable<AdapterStats>& counters();
template <>
const CounterTable<GpuStats>& counters();
template <>
const CounterTable<DeviceStats>& counters();
template <>
const CounterTable<ChannelStats>& counters();
template <>
const CounterTable<TensorStats>& counters();
template <>
const CounterTable<box::ClientStats>& counters();
template <>
const CounterTable<box::ServerStats>& counters();
template <>
const CounterTable<stream::Stats>& counters();

}  // namespace farwrite::core
