// The tail flag of a slot: the last word of the one write that fills it.
//
// Behind the payload, padded to 8 bytes. Its value is the generation of the grant plus one, so it
// grows with every push into a slot, and is never 0 or 1.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "device/channel.h"
#include "transfer/slot_head.h"

namespace farwrite::transfer {

inline constexpr std::uint64_t kTailFlagBytes = 8;

constexpr std::uint64_t tail_flag_offset(std::uint64_t payload_bytes) {
  return kSlotHeadBytes + (payload_bytes + kTailFlagBytes - 1) / kTailFlagBytes * kTailFlagBytes;
}

constexpr std::uint64_t tail_flag_value(std::uint64_t generation) { return generation + 1; }

// The memory of one slot.
constexpr std::uint64_t slot_bytes(std::uint64_t capacity,
                                   std::optional<NotificationLowering> lowering) {
  return lowering == NotificationLowering::kTailFlag ? tail_flag_offset(capacity) + kTailFlagBytes
                                                     : kSlotHeadBytes + capacity;
}

inline std::uint64_t* tail_flag_at(std::byte* slot, std::uint64_t payload_bytes) {
  return reinterpret_cast<std::uint64_t*>(slot + tail_flag_offset(payload_bytes));
}

// Acquires: the thread that sees a new value sees the whole write.
inline std::uint64_t load_tail_flag(std::uint64_t* flag) {
  return std::atomic_ref<std::uint64_t>(*flag).load(std::memory_order_acquire);
}

}  // namespace farwrite::transfer
