// SlotHead: what a sender puts in front of the payload of a slot.
//
//     0 u32 magic "FWSH"   4 u16 version, 1   6 u16 rank   8 u32 edge   12 4 zero bytes
//    16 u64 generation    24 u64 sequence    32 u64 payload bytes
//    40 u64 dims[16], those past the rank zero
//   168 u64 checksum of the 168 bytes before it          176 80 zero bytes
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "farwrite/status.h"

namespace farwrite::transfer {

// A multiple of 64, so that the payload behind it is aligned.
inline constexpr std::size_t kSlotHeadBytes = 256;

struct SlotHead {
  std::uint32_t edge = 0;
  std::uint64_t generation = 0;  // of the grant that was used
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> dims;  // at most kMaxDimensions

  std::array<std::byte, kSlotHeadBytes> encode() const;
  // Of private memory, never of the slot's own: a peer may write that while we look. kProtocolError
  // for a wrong magic, version, rank or checksum. What the numbers mean is for the caller to check.
  static Result<SlotHead> decode(const std::array<std::byte, kSlotHeadBytes>& bytes);
};

}  // namespace farwrite::transfer
