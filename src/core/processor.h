// Which instructions the processor and the system offer, beyond those that every one of its kind
// has, and who made it.
#pragma once

namespace farwrite::core {

// All false on a processor that is not x86-64.
struct ProcessorFeatures {
  bool sse42 = false;  // with its instruction for CRC-32C
  bool avx2 = false;
  bool f16c = false;
  bool avx512f = false;
  bool clflushopt = false;
  bool amd = false;  // made by AMD
};

// Found once. Not by __builtin_cpu_supports(), which answers no to everything in what zig 0.17.1
// links (tools/build_wheels.py).
const ProcessorFeatures& processor_features();

}  // namespace farwrite::core
