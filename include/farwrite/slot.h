// Slots and leases: who may touch a buffer that two processes share, and when it is free again.
//
// A slot is a landing place that its receiver owns; a lease is a buffer that its sender owns and a
// receiver looks at or reads. The rules:
//   1. No free slot never blocks and never fails: the sender offers the tensor instead, and counts
//      it.
//   2. A slot returns when the last view of it dies. Views may outlive the step, the channel and
//      the peer.
//   3. Quotas are per peer and per direction. Over quota means an offer, a pull or a copy, counted.
//   4. Proven death (process gone, connection reset, queue pair error) returns everything that peer
//      held or was granted. Silence only quarantines: what a silent peer can still write or read is
//      not reused until its death is proven or its access is revoked.
//   5. Abort, cancel, step end, session end and restart leave bounded tombstones, so that a late
//      push is recognized, dropped and its credit returned.
//   6. Every transition is counted; at shutdown the counters balance.
#pragma once

#include <cstdint>
#include <string_view>

#include "farwrite/export.h"

namespace farwrite {

// FREE -> GRANTED(sender, edge) -> LANDED(identity) -> VIEWED(n) -> FREE
enum class SlotState : std::uint8_t { kFree, kGranted, kLanded, kViewed };

// HELD(receiver) -> RELEASED
enum class LeaseState : std::uint8_t { kHeld, kReleased };

// Whether one step of the state machine is legal. A granted slot may return unused (abort, proven
// death); a landed one may be dropped unseen (tombstone); kViewed -> kViewed is one view more or
// less.
constexpr bool may_follow(SlotState from, SlotState to) {
  switch (from) {
    case SlotState::kFree:
      return to == SlotState::kGranted;
    case SlotState::kGranted:
      return to == SlotState::kLanded || to == SlotState::kFree;
    case SlotState::kLanded:
      return to == SlotState::kViewed || to == SlotState::kFree;
    case SlotState::kViewed:
      return to == SlotState::kViewed || to == SlotState::kFree;
  }
  return false;
}

constexpr bool may_follow(LeaseState from, LeaseState to) {
  return from == LeaseState::kHeld && to == LeaseState::kReleased;
}

FARWRITE_API std::string_view to_string(SlotState state);
FARWRITE_API std::string_view to_string(LeaseState state);

}  // namespace farwrite
