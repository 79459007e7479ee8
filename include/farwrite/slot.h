/// @file
/// Slots and leases: which process may access a buffer that two processes share, and when the
/// buffer is free again.
///
/// A slot is a landing buffer that its receiver owns. A lease covers a buffer that its sender owns
/// and a receiver maps or reads. The rules:
///   1. A sender that finds no free slot never blocks and never fails. It offers the tensor, and
///      counts the offer.
///   2. A slot returns when its last view is destroyed. Views may outlive the step, the channel and
///      the peer.
///   3. Quotas are per peer and per direction. Over quota, the transfer becomes an offer, a pull or
///      a copy, and is counted.
///   4. Proven death (process gone, connection reset, queue pair error) returns all that the peer
///      held or was granted. Silence only quarantines: memory that a silent peer can still write or
///      read is not reused until its death is proven or its access is revoked.
///   5. Abort, cancel, step end, session end and restart leave bounded tombstones. They identify
///      a late push. It is dropped, and its credit is returned.
///   6. Every transition is counted. At shutdown the counters balance.
#pragma once

#include <cstdint>
#include <string_view>

#include "farwrite/export.h"

namespace farwrite {

/// FREE -> GRANTED(sender, edge) -> LANDED(identity) -> VIEWED(n) -> FREE
enum class SlotState : std::uint8_t {
  kFree,     ///< nobody may write it
  kGranted,  ///< its sender may write it once
  kLanded,   ///< a tensor has arrived in it
  kViewed,   ///< at least one view of the tensor exists
};

/// HELD(receiver) -> RELEASED
enum class LeaseState : std::uint8_t {
  kHeld,      ///< the receiver may read the buffer; its owner must not reuse it
  kReleased,  ///< the owner may reuse the buffer
};

/// True if the state machine allows this transition. A granted slot may return unused (abort,
/// proven death). A landed slot may be dropped before any view (tombstone). kViewed -> kViewed adds
/// or removes one view.
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

/// True if the state machine allows this transition.
constexpr bool may_follow(LeaseState from, LeaseState to) {
  return from == LeaseState::kHeld && to == LeaseState::kReleased;
}

/// The name of the state: "LANDED".
FARWRITE_API std::string_view to_string(SlotState state);
/// The name of the state: "HELD".
FARWRITE_API std::string_view to_string(LeaseState state);

}  // namespace farwrite
