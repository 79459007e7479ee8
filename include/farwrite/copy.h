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

#include "farwrite/c_device.h"
#include "farwrite/copy_types.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/namespace.h"

FARWRITE_BEGIN

/// Copies `bytes` from `source` to `destination`, of any alignment and length. The two must not
/// overlap. It ends with a fence where the kernel needs one: a thread that reads a release store
/// made after the call also reads the bytes. Thread-safe. The first large copy runs the probe (at
/// most about 60 ms).
inline void copy_bytes(void* destination, const void* source, std::size_t bytes) {
  fw_copy(destination, source, bytes);
}

namespace internal {

/// @private What append_kernel() adds to.
using Kernels = Gathered<std::vector<CopyKernel>>;

/// @private
inline void append_kernel(void* context, const fw_copy_kernel* kernel) noexcept {
  Kernels::into(context, [kernel](std::vector<CopyKernel>& all) {
    all.push_back({kernel->name, kernel->function, kernel->supported != 0, kernel->probed_gb_s,
                   kernel->chosen != 0});
  });
}

}  // namespace internal

/// Every kernel of this build, in order of preference. Runs the probe if none has run.
/// `FARWRITE_COPY_KERNEL=NAME` overrides the choice. A name that is unknown or unsupported is
/// logged with the names that work and is ignored here, and no device opens with it. Thread-safe.
inline std::vector<CopyKernel> copy_kernels() {
  internal::Kernels kernels;
  fw_copy_kernels(internal::append_kernel, &kernels);
  return kernels.take();
}

/// The kernel that copy_bytes() uses. The first call runs the probe. Thread-safe.
inline CopyKernel probe_copy_kernels() {
  for (const CopyKernel& kernel : copy_kernels()) {
    if (kernel.chosen) return kernel;
  }
  return {};
}

FARWRITE_END
