// What each family of copy kernels offers; the list that copy.cc probes.
#pragma once

#include <cstddef>
#include <vector>

#include "memory/copy.h"

namespace farwrite::memory {

// Each appends its kernels in order of preference, `supported` filled in for this CPU; none on an
// architecture it is not for.
void append_x86_kernels(std::vector<CopyKernel>& kernels);
void append_aarch64_kernels(std::vector<CopyKernel>& kernels);
void append_generic_kernels(std::vector<CopyKernel>& kernels);

// Drops the lines of a buffer from the CPU's caches, so that the probe copies what a large copy
// meets: cold memory. Does nothing where a user program cannot.
void flush_from_caches(const std::byte* data, std::size_t bytes);

}  // namespace farwrite::memory
