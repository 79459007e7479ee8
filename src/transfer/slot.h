// Slot: a landing place for one tensor. Its receiver owns it and grants it, and a sender writes it
// (paper section 3.2, static tensors; bounded ones use it as well).
//
// The rules are in docs/explanation/contract.md, "Slots and leases". A plain state machine: no
// channel, no thread, no lock.
#pragma once

#include <cstddef>
#include <cstdint>

#include "transfer/slot_head.h"

namespace farwrite::transfer {

enum class SlotState : std::uint8_t {
  kFree,     // nothing may write it
  kGranted,  // its sender may write it once
  kLanded,   // a tensor has arrived in it
  kViewed,   // at least one view of the tensor exists
};

// A granted slot may return unused (abort, proven death), and a landed one be dropped before any
// view. From kViewed to itself: one view more or less.
constexpr bool may_follow(SlotState from, SlotState to) {
  switch (from) {
    case SlotState::kFree:
      return to == SlotState::kGranted;
    case SlotState::kGranted:
      return to == SlotState::kLanded || to == SlotState::kFree;
    case SlotState::kLanded:
    case SlotState::kViewed:
      return to == SlotState::kViewed || to == SlotState::kFree;
  }
  return false;
}

// A grant, as it travels: the permission to write a slot once.
struct Credit {
  std::uint32_t slot = 0;
  std::uint64_t generation = 0;
};

// How often slots of an edge changed their state, and why.
struct SlotCounts {
  std::uint64_t grants = 0, landed = 0, revoked = 0, stale = 0, malformed = 0, returned = 0;
};

// What a push into a slot is.
enum class PushVerdict : std::uint8_t {
  kLanded,     // GRANTED -> LANDED
  kStale,      // GRANTED -> FREE: the push was made under an earlier grant; grant again
  kMalformed,  // GRANTED -> FREE: no push of an honest peer; grant again, or end the channel
  kUnasked,    // nothing was granted; nothing changes
};
struct CheckedPush {
  PushVerdict verdict = PushVerdict::kUnasked;
  SlotHead head;  // checked, if it landed; else what could be read of it
};

// The receiver's half. Thread-compatible.
class Slot {
 public:
  // `memory`: the head and then `capacity` bytes of payload; it outlives the slot. `counts` as
  // well.
  Slot(std::uint32_t number, const std::byte* memory, std::uint64_t capacity, SlotCounts& counts)
      : number_(number), memory_(memory), capacity_(capacity), counts_(&counts) {}

  SlotState state() const { return state_; }
  std::uint32_t number() const { return number_; }
  std::uint64_t capacity() const { return capacity_; }
  std::uint64_t generation() const { return generation_; }
  const std::byte* payload() const { return memory_ + kSlotHeadBytes; }

  // FREE -> GRANTED.
  Credit grant();
  // GRANTED -> FREE, unused: abort, close, proven death. False in any other state.
  bool revoke();

  // A notification reports a push into this slot: copies the head once, then checks it.
  CheckedPush land();
  // LANDED -> VIEWED
  void view();
  // LANDED -> FREE: the tensor does not fit what its edge carries. Counts as malformed, not landed.
  void refuse();
  // LANDED or VIEWED -> FREE: dropped unseen, or the last view is gone.
  void give_back();

 private:
  void move_to(SlotState next);
  PushVerdict judge(SlotHead& head) const;

  std::uint32_t number_;
  const std::byte* memory_;
  std::uint64_t capacity_;
  SlotCounts* counts_;
  SlotState state_ = SlotState::kFree;
  std::uint64_t generation_ = 0;
};

}  // namespace farwrite::transfer
