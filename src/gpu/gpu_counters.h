// What this process has done with GPUs, for DeviceStats.
#pragma once

#include "core/counter.h"
#include "farwrite/device_types.h"

namespace farwrite::gpu {

struct GpuCounters {
  // As in GpuStats.
  core::Counter mappings, mapped_bytes, copies, copied_bytes, staged_bytes, pins, pinned_bytes;

  GpuStats stats() const {
    return {mappings.value(),     mapped_bytes.value(), copies.value(),      copied_bytes.value(),
            staged_bytes.value(), pins.value(),         pinned_bytes.value()};
  }
};

// The process's.
GpuCounters& counters();

}  // namespace farwrite::gpu
