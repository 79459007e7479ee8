// Where a channel's lanes deliver: users' lanes to the inbox, the return lane to the lease table.
#pragma once

#include <optional>
#include <utility>

#include "device/channel_lanes.h"

namespace farwrite::device {

// Under the inbox's Delivery.
class ChannelLanes::Intake final : public fabric::EventSink {
 public:
  // For a thread that polls on its own behalf, `taken` gets the first notification.
  explicit Intake(ChannelLanes& lanes, std::optional<Notification>* taken = nullptr)
      : lanes_(lanes), taken_(taken) {}

  bool has_room() const override { return lanes_.has_room(); }
  void on_notification(Notification&& notification) override {
    // A close waits for the handler's return, not for all that one look at the lane brings.
    if (lanes_.life_.closing()) return;
    lanes_.trace(notification.message.size(), notification.lane, notification.tag);
    lanes_.inbox_.deliver(std::move(notification), taken_);
  }
  void on_record(Notification&& record) override {
    lanes_.trace(record.message.size(), record.lane, record.tag);
    lanes_.observer_.on_lend(std::move(record));
  }

 private:
  ChannelLanes& lanes_;
  std::optional<Notification>* const taken_;
};

// For a closed channel, whose lanes are served until the peer knows: what comes has no owner.
class ChannelLanes::Discard final : public fabric::EventSink {
 public:
  void on_notification(Notification&& /*notification*/) override {}
};

class ChannelLanes::ReturnIntake final : public fabric::EventSink {
 public:
  explicit ReturnIntake(Observer& observer) : observer_(observer) {}

  void on_notification(Notification&& notification) override {
    observer_.on_return(notification);  // which finds that it is none
  }
  void on_record(Notification&& record) override { observer_.on_return(record); }

 private:
  Observer& observer_;
};

}  // namespace farwrite::device
