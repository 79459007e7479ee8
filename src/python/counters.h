// The fields of a public Stats struct as a dict, by core/counter_table.h.
#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "core/counter_table.h"

namespace farwrite::python {

using Counts = nanobind::typed<nanobind::dict, nanobind::str, int>;

template <typename Stats>
Counts counts_of(const Stats& stats) {
  nanobind::dict counts;
  for (const auto& row : core::counters<Stats>().rows) {
    counts[nanobind::str(row.name.data(), row.name.size())] = stats.*row.field;
  }
  return Counts(std::move(counts));
}

}  // namespace farwrite::python
