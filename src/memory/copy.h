// Copies of memory of the library: what each does is written in farwrite/copy.h.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include "farwrite/copy_types.h"
#include "farwrite/status.h"

namespace farwrite {

void copy_bytes(void* destination, const void* source, std::size_t bytes);

std::vector<CopyKernel> copy_kernels();

const CopyKernel& probe_copy_kernels();

Status copy_memory(void* destination, const void* source, std::size_t bytes);

namespace memory {

// kInvalidArgument if FARWRITE_COPY_KERNEL is set to no kernel that this CPU can run. Probes none.
Status check_copy_kernel_variable();

// A kernel that passes the caches, which needs no probe: they are about equally fast. Null if this
// CPU has none, or FARWRITE_COPY_KERNEL says memcpy. An aarch64's must be named there.
CopyFunction streaming_kernel();

// The place of the kernel to use, by the probed rates. memcpy, unless a kernel that this CPU runs
// was probed to be clearly faster; this holds even if nothing was probed, because the machine was
// too busy.
std::size_t fastest_kernel(const std::vector<CopyKernel>& kernels);

}  // namespace memory
}  // namespace farwrite
