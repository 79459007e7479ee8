// The C library's memcpy, which every platform has.
#include <cstring>

#include "memory/copy_families.h"

namespace farwrite::memory {
namespace {

void copy_memcpy(void* destination, const void* source, std::size_t bytes) {
  std::memcpy(destination, source, bytes);
}

}  // namespace

void append_generic_kernels(std::vector<CopyKernel>& kernels) {
  kernels.push_back({"memcpy", copy_memcpy, true, 0.0, false});
}

#if !defined(__x86_64__) && !defined(__aarch64__)
void flush_from_caches(const std::byte*, std::size_t) {}
#endif

}  // namespace farwrite::memory
