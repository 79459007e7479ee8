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
  Lane(std::weak_ptr<ChannelState> channel, std::uint32_t index, Poller& poller)
      : channel_(std::move(channel)), index_(index), poller_(poller) {}

  Poller& poller() const { return poller_; }
  // An operation is under way that only polling moves on.
  void expect_progress() {
    pending_.store(true);
    poller_.kick();
  }

  bool wants_poller() const override {
    if (pending_.load()) return true;
    const std::shared_ptr<ChannelState> channel = channel_.lock();
    return channel != nullptr &&
           (channel->inbox_.has_handler() || !channel->capabilities_.cpu_free_target);
  }

  fabric::Progress serve() override {
    const std::shared_ptr<ChannelState> channel = channel_.lock();
    pending_.store(false);
    if (channel == nullptr) return {};
    const fabric::Progress progress = channel->serve_lane(index_);
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
  Poller& poller_;
  std::atomic<bool> pending_{false};
};

}  // namespace farwrite::device
