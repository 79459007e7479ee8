// ChannelLanes::ChannelLane: one lane of a channel, as its poller sees it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "device/channel_lanes.h"
#include "device/poller.h"

namespace farwrite::device {

class ChannelLanes::ChannelLane final : public PolledLane {
 public:
  ChannelLane(std::weak_ptr<ChannelLanes> lanes, std::uint32_t index, bool return_lane,
              Poller& poller)
      : lanes_(std::move(lanes)), index_(index), return_lane_(return_lane), poller_(poller) {}

  Poller& poller() const { return poller_; }
  bool is_return_lane() const { return return_lane_; }
  // After a look at the lane that began when the peer had gone: whether nothing is left in it.
  bool is_drained(const fabric::Progress& look) {
    if (drained_.load()) return true;
    if (!look.drained) return false;
    if (drained_.exchange(true)) return true;
    if (const std::shared_ptr<ChannelLanes> lanes = lanes_.lock()) lanes->lane_is_drained();
    return true;
  }
  // An operation is under way that only polling moves on. `rings`: its progress rings the doorbell
  // of a poller that sleeps on it, which nothing else has to wake.
  void expect_progress(bool rings = false) {
    pending_.store(true);
    if (!rings || !armed()) poller_.kick();
  }

  bool wants_poller() const override {
    if (pending_.load() || watches_.load()) return true;
    const std::shared_ptr<ChannelLanes> lanes = lanes_.lock();
    if (lanes == nullptr) return false;
    if (return_lane_) return !lanes->takes_returns_.load() || lanes->life_.peer_over();
    if (lanes->inbox_.has_handler()) return true;
    if (!drained_.load() && lanes->life_.peer_over()) return true;
    // Where the target's CPU makes the progress, something always has to; a user's thread that
    // waits does it by itself, and two would wake each other up.
    return !lanes->cpu_free_target_ && !lanes->inbox_.is_driven();
  }

  bool look_again() override {
    const std::shared_ptr<ChannelLanes> lanes = lanes_.lock();
    if (lanes == nullptr || lanes->cpu_free_target_) return false;
    const std::uint64_t drives = lanes->inbox_.drives();
    // The same wait as a moment ago: it may be a long one, and says when it is over.
    if (drives == seen_drives_ && lanes->inbox_.call_at_end_of_drive()) return false;
    seen_drives_ = drives;
    return true;
  }

  bool worth_spinning() const override { return !return_lane_; }

  fabric::Progress serve() override {
    const std::shared_ptr<ChannelLanes> lanes = lanes_.lock();
    pending_.store(false);
    if (lanes == nullptr) return {};
    const bool over = lanes->life_.peer_over();  // before the look that finds the lane empty
    fabric::Progress progress = return_lane_ ? lanes->serve_returns() : lanes->serve(index_);
    // A user's thread may be taking the last ones: it says so itself, or we look again.
    if (over && !return_lane_ && !is_drained(progress)) progress.pending = true;
    if (progress.pending) pending_.store(true);
    watches_.store(progress.unsent || (progress.awaits && !lanes->inbox_.has_takers_until()));
    return progress;
  }

  fabric::Doorbell arm() override {
    const std::shared_ptr<ChannelLanes> lanes = lanes_.lock();
    if (lanes == nullptr) return fabric::Doorbell{};
    fabric::Doorbell doorbell = lanes->lane(index_).arm();
    // What waits for room in the inbox is the user's to make room for.
    if (return_lane_ || lanes->has_room()) doorbell.ready = doorbell.ready || doorbell.holds;
    if (!return_lane_ || lanes->takes_returns_.load()) lanes->inbox_.ring_sleeping_driver();
    return doorbell;
  }

 private:
  const std::weak_ptr<ChannelLanes> lanes_;
  const std::uint32_t index_;
  const bool return_lane_;
  Poller& poller_;
  std::atomic<bool> pending_{false};
  std::atomic<bool> watches_{false};  // the poller sleeps on the doorbell in any case
  std::atomic<bool> drained_{false};  // since the peer has gone
  std::uint64_t seen_drives_ = 0;     // poller's thread only
};

}  // namespace farwrite::device
