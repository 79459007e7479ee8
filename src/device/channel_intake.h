// Where a channel's lanes deliver: users' lanes to the inbox, the return lane to the lease table.
#pragma once

#include <utility>

#include "device/channel_state.h"

namespace farwrite::device {

// Under the inbox's Delivery.
class ChannelState::Intake final : public fabric::EventSink {
 public:
  explicit Intake(ChannelState& channel) : channel_(channel) {}

  void on_notification(Notification notification) override {
    channel_.inbox_.on_notification(std::move(notification));
  }
  void on_record(Notification&& record) override { channel_.take_lend(std::move(record)); }

 private:
  ChannelState& channel_;
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
