// Where a channel's lanes deliver: users' lanes to the inbox, the return lane to the lease table.
#pragma once

#include <optional>
#include <utility>

#include "core/trace.h"
#include "device/channel_state.h"

namespace farwrite::device {

// Under the inbox's Delivery.
class ChannelState::Intake final : public fabric::EventSink {
 public:
  // For a thread that polls on its own behalf, `taken` gets the first notification.
  explicit Intake(ChannelState& channel, std::optional<Notification>* taken = nullptr)
      : channel_(channel), taken_(taken) {}

  bool has_room() const override { return channel_.has_room(); }
  void on_notification(Notification notification) override {
    // A close waits for the handler's return, not for all that one look at the lane brings.
    if (channel_.life_.closing()) return;
    trace(notification);
    channel_.inbox_.deliver(std::move(notification), taken_);
  }
  void on_record(Notification&& record) override {
    trace(record);
    channel_.take_lend(std::move(record));
  }

 private:
  void trace(const Notification& arrived) const {
    core::trace_instant("notification received", to_string(channel_.peer_.fabric),
                        channel_.peer_name_, arrived.message.size(), arrived.lane, arrived.tag);
  }

  ChannelState& channel_;
  std::optional<Notification>* const taken_;
};

// For a closed channel, whose lanes are served until the peer knows: what comes is nobody's.
class ChannelState::Discard final : public fabric::EventSink {
 public:
  void on_notification(Notification /*notification*/) override {}
};

class ChannelState::ReturnIntake final : public fabric::EventSink {
 public:
  explicit ReturnIntake(ChannelState& channel) : channel_(channel) {}

  void on_notification(Notification notification) override {
    channel_.take_returns(notification);  // which finds that it is none
  }
  void on_record(Notification&& record) override { channel_.take_returns(record); }

 private:
  ChannelState& channel_;
};

}  // namespace farwrite::device
