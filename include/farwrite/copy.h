/// @file
/// copy_bytes(): a memcpy that uses streaming stores for large copies, and its kernels.
///
/// A large copy by ordinary stores first reads each destination line into the cache, only to
/// overwrite it. Streaming stores skip that read. A kernel that walks several pages at once keeps
/// the memory controller busy. A measurement, made once per process, chooses the kernel; the CPU's
/// name does not.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "farwrite/export.h"

namespace farwrite {

/// From this size on copy_bytes() uses the chosen kernel. Smaller copies use memcpy. In bytes.
inline constexpr std::size_t kStreamingCopyBytes = std::size_t{256} << 10;

/// Copies `bytes` from `source` to `destination`, of any alignment and length. The two must not
/// overlap. It ends with a fence where the kernel needs one: a thread that reads a release store
/// made after the call also reads the bytes. Thread-safe. The first large copy runs the probe (at
/// most about 60 ms).
FARWRITE_API void copy_bytes(void* destination, const void* source, std::size_t bytes);

/// The signature of copy_bytes().
using CopyFunction = void (*)(void* destination, const void* source, std::size_t bytes);

/// One way to copy memory. `function` keeps the promises of copy_bytes() for any length.
struct CopyKernel {
  std::string_view name;            ///< "memcpy", "nt-avx512", ...; valid until the process ends
  CopyFunction function = nullptr;  ///< to be called only if `supported`
  bool supported = false;           ///< this CPU can run it
  double probed_gb_s = 0.0;         ///< of a cold copy to memory, 1e9 bytes/s; 0 without a probe
  bool chosen = false;              ///< copy_bytes() uses it
};

/// Every kernel of this build, in order of preference. Runs the probe if none has run.
/// `FARWRITE_COPY_KERNEL=NAME` overrides the choice. A name that is unknown or unsupported is
/// logged with the names that work and is ignored here, and no device opens with it. Thread-safe.
FARWRITE_API std::vector<CopyKernel> copy_kernels();

/// The kernel that copy_bytes() uses. The first call runs the probe. Thread-safe.
FARWRITE_API const CopyKernel& probe_copy_kernels();

}  // namespace farwrite
