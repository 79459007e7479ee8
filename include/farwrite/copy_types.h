/// @file
/// What describes a way to copy memory.
#pragma once

#include <cstddef>
#include <string_view>

#include "farwrite/internal/namespace.h"

FARWRITE_BEGIN

/// From this size on copy_bytes() uses the chosen kernel. Smaller copies use memcpy. In bytes.
inline constexpr std::size_t kStreamingCopyBytes = std::size_t{256} << 10;

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

FARWRITE_END
