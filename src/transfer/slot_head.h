// SlotHead: what a sender puts in front of the payload of a slot.
//
//     0 u32 magic "FWSH"   4 u16 version, 1   6 u16 description bytes   8 u32 slot   12 4 zero
//     bytes
//    16 u64 generation    24 u64 payload bytes
//    32 the description, zeros behind it
//   248 u64 checksum of the first 32 bytes and the description
//
// The description is the user's: which tensor this is, of what type and shape. The engine carries
// it and does not read it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::transfer {

// A multiple of 64, so that the payload behind it is aligned.
inline constexpr std::size_t kSlotHeadBytes = 256;
inline constexpr std::size_t kMaxSlotDescriptionBytes = kSlotHeadBytes - 40;

struct SlotHead {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;  // of the grant that was used
  std::uint64_t bytes = 0;
  std::vector<std::byte> description;  // at most kMaxSlotDescriptionBytes

  template <typename Wire>
  void fields(Wire& wire);  // without the checksum
  std::array<std::byte, kSlotHeadBytes> encode() const;
  // Of private memory, never of the slot's own: a peer may write that meanwhile. kProtocolError
  // for a wrong magic, version, length or checksum. The caller checks what the numbers mean.
  static Result<SlotHead> decode(const std::array<std::byte, kSlotHeadBytes>& bytes);
};

}  // namespace farwrite::transfer
