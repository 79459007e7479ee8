// ChannelState::Lane: one lane of a channel, as its poller sees it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

#include "device/channel_state.h"
#include "device/poller.h"

namespace farwrite::device {

class ChannelState::Lane final : public PolledLane {
 public:
  Lane(ChannelState& channel, std::uint32_t index, Poller& poller)
      : channel_(channel.weak_from_this()),
        index_(index),
        return_lane_(index == channel.peer_.lanes),
        poller_(poller) {}

  Poller& poller() const { return poller_; }
  bool is_return_lane() const { return return_lane_; }
  // After a look at the lane that began when the peer had gone: whether nothing is left in it.
  bool is_drained(const fabric::Progress& look) {
    if (drained_.load()) return true;
    if (!look.drained) return false;
    if (drained_.exchange(true)) return true;
    if (const std::shared_ptr<ChannelState> channel = channel_.lock()) channel->lane_drained();
    return true;
  }
  // An operation is under way that only polling moves on.
  void expect_progress() {
    pending_.store(true);
    poller_.kick();
  }

  bool wants_poller() const override {
    if (pending_.load()) return true;
    const std::shared_ptr<ChannelState> channel = channel_.lock();
    if (channel == nullptr) return false;
    return return_lane_ || channel->inbox_.has_handler() ||
           !channel->capabilities_.cpu_free_target || (!drained_.load() && channel->peer_over());
  }

  fabric::Progress serve() override {
    const std::shared_ptr<ChannelState> channel = channel_.lock();
    pending_.store(false);
    if (channel == nullptr) return {};
    const bool over = channel->peer_over();  // before the look that finds the lane empty
    fabric::Progress progress =
        return_lane_ ? channel->serve_returns() : channel->serve_lane(index_);
    // A user's thread may be taking the last ones: it says so itself, or we look again.
    if (over && !return_lane_ && !is_drained(progress)) progress.pending = true;
    if (progress.pending) pending_.store(true);
    return progress;
  }

  fabric::Doorbell arm() override {
    const std::shared_ptr<ChannelState> channel = channel_.lock();
    const std::shared_ptr<fabric::Link> link = channel == nullptr ? nullptr : channel->link();
    return link == nullptr ? fabric::Doorbell{} : link->arm(index_);
  }

 private:
  const std::weak_ptr<ChannelState> channel_;
  const std::uint32_t index_;
  const bool return_lane_;
  Poller& poller_;
  std::atomic<bool> pending_{false};
  std::atomic<bool> drained_{false};  // since the peer has gone
};

}  // namespace farwrite::device
