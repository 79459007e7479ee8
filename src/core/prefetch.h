// Prefetches: hints to the CPU to fetch a cache line early. They never fault and change nothing
// that a program can read, so any address may be given.
#pragma once

#include <cstddef>

namespace farwrite::core {

// For a store that follows soon: the line comes in a state that the store need not ask for again.
// GCC's builtin makes a prefetch for reading of it unless the build is for a newer CPU.
inline void prefetch_for_write(const void* line) {
#if defined(__x86_64__)
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

inline void prefetch_for_read(const void* line) { __builtin_prefetch(line); }

// The lines of `bytes` bytes.
inline void prefetch_for_read(const std::byte* first, std::size_t bytes) {
  constexpr std::size_t kLine = 64;
  for (std::size_t at = 0; at < bytes; at += kLine) prefetch_for_read(first + at);
}

}  // namespace farwrite::core
