// FNV-1a, 64 bits: against mistakes and torn bytes, not against an adversary.
#pragma once

#include <cstddef>
#include <cstdint>

#include "farwrite/bytes.h"

namespace farwrite::transfer {

// As specified by Fowler, Noll and Vo: offset basis and prime of the 64-bit variant.
inline std::uint64_t checksum(ByteView bytes) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < bytes.size; ++i) {
    hash = (hash ^ static_cast<std::uint64_t>(bytes.data[i])) * 0x100000001b3;
  }
  return hash;
}

}  // namespace farwrite::transfer
