// LaneOrder: one side's half of a lane: numbering what it sends, ordering what it receives.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "core/unique_fd.h"
#include "device/channel.h"
#include "simulated/packet.h"
#include "simulated/simulated_options.h"

namespace farwrite::fabric {

// Under the network's lock, except `polling` and the number of the doorbell's descriptor.
class LaneOrder {
 public:
  explicit LaneOrder(core::UniqueFd doorbell) : doorbell_(std::move(doorbell)) {}

  std::uint64_t next_sequence() { return next_to_send_++; }

  // A notification packet came in. False for one that was here before.
  bool arrive(const std::shared_ptr<Transfer>& transfer);
  // Moves what is next in order, and by `lowering` may be seen, to the ready ones. A notification
  // whose write was refused is passed over.
  void release(Lowering lowering);
  // What a fabric without sequence numbers would do.
  void release_unsequenced(const Transfer& transfer) { ready_.push_back(received(transfer)); }

  bool has_ready() const { return !ready_.empty(); }
  std::deque<ReceivedNotification> take_ready() { return std::exchange(ready_, {}); }
  // What arrived but may never be seen now, since the connection is over.
  void drop_arrivals() { arrivals_.clear(); }

  int doorbell() const { return doorbell_.get(); }
  // A thread is about to sleep on the doorbell. It stays armed: a thread that polls meanwhile must
  // not take another's wake-up away.
  void arm() { armed_ = true; }
  // Wakes the sleepers. False if nothing ever sleeps here, or it rings already.
  bool ring();
  // Empties the doorbell: a thread is awake and looks.
  void silence();

  // Held by the one thread that polls the lane.
  std::atomic_flag polling;

 private:
  static ReceivedNotification received(const Transfer& transfer);

  const core::UniqueFd doorbell_;
  bool armed_ = false;
  bool rung_ = false;
  std::uint64_t next_to_send_ = 0;
  std::uint64_t next_to_show_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Transfer>> arrivals_;  // by sequence
  std::deque<ReceivedNotification> ready_;
};

}  // namespace farwrite::fabric
