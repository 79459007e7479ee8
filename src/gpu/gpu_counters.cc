#include "gpu/gpu_counters.h"

namespace farwrite::gpu {

GpuCounters& counters() {
  static auto* const counters = new GpuCounters();
  return *counters;
}

}  // namespace farwrite::gpu
