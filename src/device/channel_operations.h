// ChannelOperations: posts a channel's operations to its link, and sees to it that they end.
//
// A pending operation is moved on by pollers. It ends with the peer or with the channel, if it has
// not ended before.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/completion.h"
#include "core/gate.h"
#include "device/channel.h"
#include "device/channel_lanes.h"
#include "device/channel_life.h"
#include "device/channel_link.h"
#include "device/operation_counts.h"
#include "device/pending_operations.h"
#include "fabric/fabric.h"
#include "fabric/notified_writes.h"

namespace farwrite::device {

// Thread-safe, without a mutex.
class ChannelOperations {
 public:
  // All of them outlive it. `channel` is what its calls are inside of (core/inside.h).
  ChannelOperations(const void* channel, core::Gate& gate, const ChannelLink& link,
                    const ChannelLife& life, ChannelLanes& lanes)
      : channel_(channel), gate_(gate), link_(link), life_(life), lanes_(lanes) {}

  // Once, and before any other call. `self` is this, kept by the channel's reference count.
  void start(const std::weak_ptr<ChannelOperations>& self, const PeerInfo& peer,
             const std::string& peer_name, const fabric::Capabilities& capabilities);

  // Inside the gate. The caller has checked the operation. Notified writes are lowered where the
  // fabric has no immediate.
  Completion post(std::uint32_t lane, const fabric::Operation& operation) {
    return lowered_ == nullptr ? post_to_link(lane, operation) : lowered_->post(lane, operation);
  }

  // Ends what is pending with `reason`, or all but the reads that a peer still answers.
  void abandon(const Status& reason, bool reads_too) { pending_.abandon(reason, reads_too); }
  // Whether one is pending that is no such read.
  bool any_pending() const { return pending_.any(); }

  OperationCounts& counts() { return counts_; }
  const OperationCounts& counts() const { return counts_; }

 private:
  Completion post_to_link(std::uint32_t lane, const fabric::Operation& operation);
  // Called back with no call of the channel under way, perhaps after its end.
  Completion post_lowered(std::uint32_t lane, const fabric::Operation& operation);
  // The peer has gone; whether what is pending may still end well: a peer that closed normally
  // took what it received, and its answers may be on their way.
  bool may_still_end() const;

  const void* const channel_;
  core::Gate& gate_;
  const ChannelLink& link_;
  const ChannelLife& life_;
  ChannelLanes& lanes_;

  // Fixed by start().
  std::string peer_name_;
  bool maps_peer_memory_ = false;
  std::shared_ptr<fabric::NotifiedWrites> lowered_;  // null if the link does it itself

  PendingOperations pending_;
  OperationCounts counts_;
};

// What errors and traces call an operation.
std::string_view name_of(const fabric::Operation& operation);

}  // namespace farwrite::device
