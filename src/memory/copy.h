// The library's own part of farwrite/copy.h: the check of FARWRITE_COPY_KERNEL.
#pragma once

#include "farwrite/copy.h"
#include "farwrite/status.h"

namespace farwrite::memory {

// kInvalidArgument if FARWRITE_COPY_KERNEL is set to no kernel that this CPU can run. Probes none.
Status check_copy_kernel_variable();

}  // namespace farwrite::memory
