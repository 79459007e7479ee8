// The library's own part of farwrite/copy.h: the choice of a kernel.
#pragma once

#include <cstddef>
#include <vector>

#include "farwrite/copy.h"
#include "farwrite/export.h"
#include "farwrite/status.h"

namespace farwrite::memory {

// kInvalidArgument if FARWRITE_COPY_KERNEL is set to no kernel that this CPU can run. Probes none.
FARWRITE_API Status check_copy_kernel_variable();

// The place of the kernel to use, by the probed rates. memcpy, unless a kernel that this CPU runs
// was probed to be clearly faster; this holds even if nothing was probed, because the machine was
// too busy.
std::size_t fastest_kernel(const std::vector<CopyKernel>& kernels);

}  // namespace farwrite::memory
