// RegionRequests: asks the peer of a channel for its regions, by name or by descriptor.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "device/channel_life.h"
#include "device/control_messages.h"
#include "device/control_requests.h"
#include "device/frame.h"
#include "device/remote_leases.h"
#include "farwrite/status.h"

namespace farwrite::device {

// Thread-safe. Calls that wait are not made on the control loop's thread, which brings the answers.
class RegionRequests {
 public:
  using Send = std::function<void(ControlFrameType, const std::vector<std::byte>& body)>;

  // All of them outlive it. `peer_name` is fixed before the first request.
  RegionRequests(const std::string& peer_name, const ChannelLife& life, RemoteLeases& leases,
                 Send send)
      : peer_name_(peer_name), life_(life), leases_(leases), send_(std::move(send)) {}

  // The peer's answer. What it leases is held, and the caller's to drop.
  Result<ReplyMessage> lookup(std::string_view name, core::Deadline deadline);
  Result<ReplyMessage> open(const RegionDescriptor& descriptor, core::Deadline deadline);

  // On the control loop: an answer came.
  void take(ReplyMessage& reply);
  // The channel may have ended.
  void look_again() { requests_.look_again(); }

 private:
  Result<ReplyMessage> look_up_once(std::string_view name, std::chrono::nanoseconds wait,
                                    core::Deadline deadline);
  // `unanswered`: what the log says of a long wait.
  Result<ReplyMessage> ask(ControlFrameType type, std::uint64_t request,
                           const std::vector<std::byte>& body, core::Deadline deadline,
                           std::string_view operation, const Status& unanswered);

  // The peer has not answered in time.
  Status late(std::string_view operation) const;

  const std::string& peer_name_;
  const ChannelLife& life_;
  RemoteLeases& leases_;
  const Send send_;
  ControlRequests requests_;
};

}  // namespace farwrite::device
