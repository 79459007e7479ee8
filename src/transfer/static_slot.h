// StaticSlot: a landing place that its receiver owns and grants, and a sender writes (paper section
// 3.2, static tensors; bounded ones use it, too).
//
// The rules are in docs/explanation/contract.md, "Slots and leases". Both halves are plain state
// machines: no channel, no thread, no lock. Whoever owns them sends the records and holds the lock.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "farwrite/tensor.h"
#include "transfer/slot_head.h"

namespace farwrite::transfer {

enum class SlotState : std::uint8_t {
  kFree,     // nobody may write it
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

// What the receiver of an edge accepts in its slots.
struct SlotTerms {
  std::uint32_t edge = 0;
  EdgeKind kind = EdgeKind::kStatic;
  TensorSpec spec;             // kStatic: all of it; kBounded: without dims
  std::uint64_t capacity = 0;  // payload bytes
};

// How often slots of an edge changed their state, and why.
struct SlotCounts {
  std::uint64_t grants = 0, landed = 0, revoked = 0, stale = 0, malformed = 0, returned = 0;
};

// The receiver's half. Thread-compatible.
class StaticSlot {
 public:
  // `memory`: the head and then the payload; outlives the slot.
  StaticSlot(const std::byte* memory, SlotCounts& counts) : memory_(memory), counts_(&counts) {}

  SlotState state() const { return state_; }
  std::uint64_t generation() const { return generation_; }
  const std::byte* payload() const { return memory_ + kSlotHeadBytes; }

  // FREE -> GRANTED. The generation that the sender must put into the head.
  std::uint64_t grant();
  // GRANTED -> FREE, unused: abort, close, proven death. False in any other state.
  bool revoke();

  enum class Outcome {
    kLanded,     // GRANTED -> LANDED
    kStale,      // GRANTED -> FREE: the push was made under an earlier grant; grant again
    kMalformed,  // GRANTED -> FREE: it does not fit the terms; grant again
    kUnasked,    // nothing was granted; nothing changes
  };
  struct Landing {
    Outcome outcome = Outcome::kUnasked;
    SlotHead head;  // checked, if it landed
  };
  // A push is said to have landed here: copies the head once, then checks it.
  Landing land(const SlotTerms& terms);
  // LANDED -> VIEWED
  void view();
  // LANDED or VIEWED -> FREE: dropped unseen, or the last view is gone.
  void give_back();

 private:
  void move_to(SlotState next);
  Outcome judge(const SlotTerms& terms, SlotHead& head) const;

  const std::byte* memory_;
  SlotCounts* counts_;
  SlotState state_ = SlotState::kFree;
  std::uint64_t generation_ = 0;
};

// The sender's half: which slots of an edge it may write. Thread-compatible.
class SlotCredits {
 public:
  struct Credit {
    std::uint32_t slot = 0;
    std::uint64_t generation = 0;
  };

  // False if that slot is granted already: the peer broke the protocol.
  bool granted(Credit credit);
  // The receiver has aborted. An unused credit goes on under the new generation; a used one does
  // not come back before the receiver has recognized its push by the old generation.
  void reset(Credit credit);
  std::optional<Credit> take();
  // The write was never posted.
  void put_back(Credit credit) { credits_.push_front(credit); }

  std::size_t available() const { return credits_.size(); }
  std::uint64_t grants() const { return grants_; }

 private:
  std::deque<Credit> credits_;
  std::uint64_t grants_ = 0;
};

}  // namespace farwrite::transfer
