// Channel of the library: what it does is written in farwrite/channel.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/completion.h"
#include "core/deadline.h"
#include "core/notification.h"
#include "core/region.h"
#include "farwrite/bytes.h"
#include "farwrite/channel_types.h"
#include "farwrite/status.h"

namespace farwrite {

namespace device {
class ChannelState;
}
namespace box {
class Session;
}
namespace transfer {
class Engine;
class Port;
}  // namespace transfer

class Channel {
 public:
  Channel() = default;
  explicit Channel(std::shared_ptr<device::ChannelState> state) : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  // --- One-sided transfers (paper section 3.1).

  Completion write(ByteView source, const RemoteRegion& target, std::uint64_t offset = 0,
                   std::uint32_t lane = 0);
  Completion read(MutableByteView destination, const RemoteRegion& source, std::uint64_t offset = 0,
                  std::uint32_t lane = 0);
  Completion write_with_notify(ByteView source, const RemoteRegion& target, std::uint64_t offset,
                               std::uint32_t tag, std::uint32_t lane = 0);
  // Inline, with the two that take notifications: where the short way does it, nothing is built
  // that the caller does not need.
  Completion write_with_notify(ByteView head, ByteView source, const RemoteRegion& target,
                               std::uint64_t offset, std::uint32_t tag, std::uint32_t lane = 0) {
    if (head.size == 0 && write_small(source, target, offset, tag, lane)) {
      return Completion(Status());
    }
    return post_notified(head, source, target, offset, tag, lane);
  }
  Completion flush();

  Result<Alias> alias(const RemoteRegion& source, std::uint64_t offset, std::uint64_t length,
                      std::chrono::nanoseconds timeout = kForever);

  Status memcpy(void* local, const RemoteRegion& remote, std::uint64_t offset, std::uint64_t bytes,
                Direction direction, std::chrono::nanoseconds timeout = kForever);

  // --- Notifications and short messages.

  Completion notify(std::uint32_t tag, std::uint32_t lane = 0);
  Completion send(ByteView message, std::uint32_t tag = 0, std::uint32_t lane = 0);
  // A message for which the peer waits: an answer, an end, credit. The lane's bounds do not refuse
  // it, so its caller bounds how many may wait. If it cannot be kept at all the channel ends, and
  // both sides get the reason. An error: the channel has ended.
  Status tell(ByteView message, std::uint32_t tag = 0, std::uint32_t lane = 0);
  std::uint64_t max_message_bytes() const;
  bool maps_peer_memory() const;
  // Whether the peer's process takes the bytes of a lane's reads in the order of the reads.
  bool reads_in_order() const;

  Completion lend(ByteView message, ByteView memory, std::function<void()> returned,
                  std::uint32_t tag = 0, std::uint32_t lane = 0);
  // As ChannelLanes.
  void take_returns(bool take);
  void take_waiting_returns();

  // For a thread that waits for what it posts, on a channel without a handler: as ChannelLanes.
  void drive(const std::function<void()>& post, const std::function<bool()>& over,
             const std::function<void(Notification)>& take, core::Deadline deadline);
  // After what made over() true in another thread.
  void wake_drivers();
  Result<Notification> wait_notification(std::chrono::nanoseconds timeout = kForever) {
    Notification bare;
    if (take_bare(/*waits=*/true, bare.tag)) return bare;
    return await_notification(timeout);
  }
  Result<std::optional<Notification>> try_notification() {
    Notification bare;
    if (take_bare(/*waits=*/false, bare.tag)) return std::optional<Notification>(std::move(bare));
    return look_for_notification();
  }
  Result<int> notification_descriptor();
  Result<bool> arm_notifications();
  void disarm_notifications();
  Status on_notification(std::function<void(Notification)> handler,
                         std::chrono::nanoseconds timeout = std::chrono::seconds(5));
  Status on_end(std::function<void(bool good_order, const Status& reason)> handler);
  // On the device's control loop, which nothing may block. Not called after the device's end.
  void run_later(std::chrono::nanoseconds delay, std::function<void()> function);

  // --- Memory and names.

  Result<MemoryRegion> allocate(std::uint64_t bytes, MemoryKind kind = {});
  Status publish(std::string_view name, const MemoryRegion& region,
                 std::string_view description = {});
  Result<RemoteRegion> lookup(std::string_view name,
                              std::chrono::nanoseconds timeout = std::chrono::seconds(5));
  Result<RemoteRegion> open(const RegionDescriptor& descriptor,
                            std::chrono::nanoseconds timeout = std::chrono::seconds(5));

  // Streams, and an engine of the C ABI, take all notifications for themselves. False: one of them
  // does, or a tensor's edge is open.
  bool claim_notifications();
  void release_notifications();
  bool notifications_claimed() const;

  // --- The peer and the end.

  const PeerInfo& peer() const;
  const std::string& peer_name() const;
  PeerState peer_state() const;
  ChannelStats stats() const;

  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

  friend bool operator==(const Channel& a, const Channel& b) { return a.state_ == b.state_; }
  friend bool operator!=(const Channel& a, const Channel& b) { return !(a == b); }

 private:
  friend class Device;
  friend class box::Session;
  friend class transfer::Engine;
  friend class transfer::Port;

  // The short ways, as those of ChannelState, and what does the rest.
  bool write_small(ByteView source, const RemoteRegion& target, std::uint64_t offset,
                   std::uint32_t tag, std::uint32_t lane);
  Completion post_notified(ByteView head, ByteView source, const RemoteRegion& target,
                           std::uint64_t offset, std::uint32_t tag, std::uint32_t lane);
  bool take_bare(bool waits, std::uint32_t& tag);
  Result<Notification> await_notification(std::chrono::nanoseconds timeout);
  Result<std::optional<Notification>> look_for_notification();

  std::shared_ptr<device::ChannelState> state_;
};

}  // namespace farwrite
