// copy_bytes: memcpy that switches to streaming stores for large copies, and the kernels behind it.
//
// A large copy by ordinary stores first reads every destination line into the cache, only to
// overwrite it. Streaming stores skip that read; walking several pages at once keeps the memory
// controller busy. Which kernel wins is measured once per process, not guessed from the CPU's name.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "farwrite/export.h"

namespace farwrite {

// From this size on copy_bytes uses the chosen kernel; below it is memcpy.
inline constexpr std::size_t kStreamingCopyBytes = std::size_t{256} << 10;

// Copies `bytes` from `source` to `destination`, which must not overlap. Any alignment, any length.
// Ends with a fence where the kernel needs one: a release store after the call is never seen before
// the bytes. Thread-safe. The first large copy runs the probe (at most about 60 ms).
FARWRITE_API void copy_bytes(void* destination, const void* source, std::size_t bytes);

using CopyFunction = void (*)(void* destination, const void* source, std::size_t bytes);

// One way to copy memory. `function` keeps copy_bytes()'s promises for any length.
struct CopyKernel {
  std::string_view name;  // "memcpy", "nt-avx512", ...; valid until the process ends
  CopyFunction function = nullptr;
  bool supported = false;  // this CPU can run it
  double probed_gb_s =
      0.0;  // cold copy rate seen by the probe, 1e9 bytes/s; 0 if it was not probed
  bool chosen = false;
};

// Every kernel this build contains, in order of preference; runs the probe if nothing did so far.
// FARWRITE_COPY_KERNEL=<name> overrides the choice; a name that is unknown or unsupported is
// logged with the names that would work, and ignored here. No device opens with it. Thread-safe.
FARWRITE_API std::vector<CopyKernel> copy_kernels();

// The kernel copy_bytes uses; runs the probe on the first call. Thread-safe.
FARWRITE_API const CopyKernel& probe_copy_kernels();

}  // namespace farwrite
