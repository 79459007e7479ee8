// The fields of a public Stats struct as a dict. Python makes its objects of them, whose attributes
// tests/python/test_metrics.py compares with the rows of src/core/counter_table.cc.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>
#include <utility>

#include "farwrite/box_types.h"
#include "farwrite/channel_types.h"
#include "farwrite/device_types.h"
#include "farwrite/tensor_types.h"

namespace farwrite::python {

template <typename Stats>
struct Field {
  const char* name;
  std::uint64_t Stats::* field;
};

// The counts of one struct, but for those in structs inside of it.
template <typename Stats>
std::span<const Field<Stats>> fields();
template <>
std::span<const Field<MemoryStats>> fields();
template <>
std::span<const Field<AdapterStats>> fields();
template <>
std::span<const Field<GpuStats>> fields();
template <>
std::span<const Field<DeviceStats>> fields();
template <>
std::span<const Field<ChannelStats>> fields();
template <>
std::span<const Field<TensorStats>> fields();
template <>
std::span<const Field<box::ClientStats>> fields();
template <>
std::span<const Field<box::ServerStats>> fields();

using Counts = nanobind::typed<nanobind::dict, nanobind::str, int>;

template <typename Stats>
Counts counts_of(const Stats& stats) {
  nanobind::dict counts;
  for (const Field<Stats>& each : fields<Stats>()) counts[each.name] = stats.*each.field;
  return Counts(std::move(counts));
}

}  // namespace farwrite::python
