/// @file
/// Channel: the link from the local device to a remote one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/c_channel.h"
#include "farwrite/channel_types.h"
#include "farwrite/completion.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/late.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/region.h"
#include "farwrite/status.h"

FARWRITE_BEGIN

/// A notification from the peer: the tag of a write that has landed, or a short message with a tag.
struct Notification {
  std::uint32_t tag = 0;           ///< the number that the sender chose
  std::uint32_t lane = 0;          ///< the lane that it came on
  std::vector<std::byte> message;  ///< empty unless the peer called Channel::send() or lend()
  RemoteRegion lent = {};          ///< valid() if the peer called lend(); already leased
};

namespace internal {

/// @private
inline PeerInfo to_peer_info(const fw_peer_info& known) {
  PeerInfo peer;
  peer.endpoint = endpoint_of(known.identity.endpoint);
  if (auto fabric = parse_fabric(known.fabric); fabric.ok()) peer.fabric = *fabric;
  peer.name = known.name;
  peer.service = known.service;
  std::memcpy(peer.uuid.data(), known.identity.uuid, peer.uuid.size());
  peer.epoch = known.identity.epoch;
  peer.fabric_reason = known.fabric_reason;
  peer.lanes = known.lanes;
  peer.encrypted = known.encrypted != 0;
  return peer;
}

/// @private A channel, and what never changes of it.
struct OpenChannel {
  explicit OpenChannel(Only<fw_channel> channel) : handle(std::move(channel)) {
    fw_peer_info info = {};
    info.struct_size = sizeof(info);
    fw_channel_peer_info(handle.get(), &info);
    peer = to_peer_info(info);
    peer_name = fw_channel_peer_name(handle.get());
  }

  const Only<fw_channel> handle;
  PeerInfo peer;
  std::string peer_name;
};

/// @private A fw_handler: fills in a Notification that was empty.
inline void keep_notification(void* context, const fw_notification* seen) noexcept {
  Notification& notification = *static_cast<Notification*>(context);
  notification.tag = seen->tag;
  notification.lane = seen->lane;
  const auto* const message = static_cast<const std::byte*>(seen->message);
  if (message != nullptr) notification.message.assign(message, message + seen->message_bytes);
  if (seen->lent != nullptr) notification.lent = RemoteRegion(seen->lent);
}

/// @private
using Handler = std::function<void(Notification)>;
/// @private
using EndHandler = std::function<void(bool good_order, const Status& reason)>;
/// @private
using Returned = std::function<void()>;

/// @private
inline void call_handler(void* context, const fw_notification* seen) noexcept {
  Notification notification;
  keep_notification(&notification, seen);
  Context<Handler>::of(context)(std::move(notification));
}
/// @private
inline void call_end_handler(void* context, int good_order, const fw_status* reason) noexcept {
  Context<EndHandler>::of(context)(good_order != 0, copy_of(reason));
}
/// @private
inline void call_returned(void* context) noexcept {
  const std::unique_ptr<Returned> returned(static_cast<Returned*>(context));
  (*returned)();
}

}  // namespace internal

/// The link from the local device to a remote one.
///
/// Copies share the channel. It closes when close() is called or the last handle is gone, of the
/// channel and of the regions, tensors and streams that were opened on it. The channel is
/// thread-safe: any thread may make any call at any time. A `lane` argument is below
/// PeerInfo::lanes; with another, or any bad argument, the Completion has failed on return.
///
/// Ordering and visibility are the same on every fabric:
///   - Writes are unordered unless flushed or notified. This includes two writes on one lane.
///   - Notifications are ordered on one lane and unordered across lanes.
///   - The Completion of a write means local_complete: the source may be reused.
///   - flush() means remote_visible for every earlier write of this channel.
///   - write_with_notify(tag): when the target takes the notification, every byte of that write is
///     visible to the target's CPU.
///   - A peer that closes normally: an operation that it has taken still ends well. The others
///     end with kUnavailable, at the latest after the detection time.
///   - The death of a peer poisons its channels: every pending operation ends with an error within
///     the detection time. A silent peer leaves operations pending, because it may come back.
class Channel {
 public:
  Channel() = default;
  /// Takes over a handle of the C ABI, such as fw_channel_share() makes; none if it is NULL.
  explicit Channel(fw_channel* handle)
      : open_(handle == nullptr ? nullptr
                                : std::make_shared<internal::OpenChannel>(
                                      internal::only(handle, fw_channel_release))) {}
  /// The handle of the C ABI, for other code of this process; valid as long as this object.
  fw_channel* handle() const { return open_ == nullptr ? nullptr : open_->handle.get(); }
  /// False for a handle that was default-constructed or moved from. It allows no other call.
  bool valid() const { return open_ != nullptr; }

  // --- One-sided transfers (paper section 3.1).

  /// Writes `source` into the peer's region, `offset` bytes from its start (paper section 3.1).
  /// Local memory may be any memory of this process; of a GPU's, see use_cuda(). It must stay valid
  /// until the Completion is settled. On shm the calling thread makes the only copy before the call
  /// returns; if either side lies on a GPU, the GPU makes it, and the thread waits for its event.
  Completion write(ByteView source, const RemoteRegion& target, std::uint64_t offset = 0,
                   std::uint32_t lane = 0);
  /// Reads from the peer's region, `offset` bytes from its start, into `destination`. The rules for
  /// local memory are those of write().
  Completion read(MutableByteView destination, const RemoteRegion& source, std::uint64_t offset = 0,
                  std::uint32_t lane = 0);
  /// Writes as write() does, then notifies the peer with `tag`.
  Completion write_with_notify(ByteView source, const RemoteRegion& target, std::uint64_t offset,
                               std::uint32_t tag, std::uint32_t lane = 0);
  /// Writes two pieces in one operation, then notifies the peer with `tag`. `head` (at most
  /// kMaxHeadBytes, reusable when the call returns) lands at `offset`, and `source` directly behind
  /// it.
  Completion write_with_notify(ByteView head, ByteView source, const RemoteRegion& target,
                               std::uint64_t offset, std::uint32_t tag, std::uint32_t lane = 0);
  /// Makes every earlier write of this channel visible to the peer's CPU.
  Completion flush() {
    fw_completion* posted = nullptr;
    fw_status* const status = fw_channel_flush(handle(), &posted);
    return Completion::adopt(status, posted);
  }

  /// Maps a view of the peer's bytes, without a copy. kUnsupported where the fabric cannot map
  /// them. The first view of lent memory may wait for the peer while the peer lives and the channel
  /// is open: do not call this from a handler. kDeadlineExceeded if that takes longer than
  /// `timeout`. kCancelled after close(), which gives back leases of which no view was made.
  Result<Alias> alias(const RemoteRegion& source, std::uint64_t offset, std::uint64_t length,
                      std::chrono::nanoseconds timeout = kForever);

  /// The paper's memcpy: write + flush, or read. Returns when the bytes have arrived.
  Status memcpy(void* local, const RemoteRegion& remote, std::uint64_t offset, std::uint64_t bytes,
                Direction direction, std::chrono::nanoseconds timeout = kForever);

  // --- Notifications and short messages.

  /// Sends a notification without bytes, behind earlier ones of its lane.
  Completion notify(std::uint32_t tag, std::uint32_t lane = 0) {
    fw_completion* posted = nullptr;
    fw_status* const status = fw_channel_notify(handle(), tag, lane, &posted);
    return Completion::adopt(status, posted);
  }
  /// Sends a message of at most max_message_bytes(), for addresses and other small data.
  Completion send(ByteView message, std::uint32_t tag = 0, std::uint32_t lane = 0) {
    fw_completion* posted = nullptr;
    fw_status* const status =
        fw_channel_send(handle(), message.data, message.size, tag, lane, &posted);
    return Completion::adopt(status, posted);
  }
  /// The longest message of send() and lend(), in bytes. It depends on the fabric.
  std::uint64_t max_message_bytes() const { return fw_channel_max_message_bytes(handle()); }
  /// True if alias() works: the fabric maps the peer's memory. If false, use read().
  bool maps_peer_memory() const { return fw_channel_maps(handle()) != 0; }

  /// Sends a message together with a lease on `memory`. The peer receives the lease in
  /// Notification::lent, and can map or read the memory without a request. `memory` must lie wholly
  /// in one segment of this device's send memory (Device::contains).
  ///
  /// `returned` runs exactly once, on any thread: when the peer has dropped the last handle and
  /// Alias, when its death is proven, or when this device closes. It must not block. It never runs
  /// if the Completion is done with an error when lend() returns. Until it runs, the bytes must
  /// neither change nor be freed.
  ///
  /// Errors: kResourceExhausted over send_limit_per_peer.
  Completion lend(ByteView message, ByteView memory, std::function<void()> returned,
                  std::uint32_t tag = 0, std::uint32_t lane = 0);

  /// Takes the next notification of any lane. Polls for DeviceOptions::spin, then blocks. A silent
  /// peer does not end the wait. After the peer's death, notifications that had arrived are
  /// delivered first.
  Result<Notification> wait_notification(std::chrono::nanoseconds timeout = kForever);
  /// Takes the next notification if there is one. Never blocks.
  Result<std::optional<Notification>> try_notification();
  /// For event loops: a descriptor to wait on (poll(2), epoll(7)) between calls of
  /// try_notification(), each wait behind arm_notifications(). It is readable once a notification
  /// may have come or the channel has ended. It belongs to the channel and is valid until the last
  /// handle is gone; do not read from it. On fabrics without help from the target's CPU (shm) no
  /// other thread is woken for the arrival.
  Result<int> notification_descriptor();
  /// Call it before each wait on notification_descriptor(). False: something is there already, so
  /// call try_notification() until it has nothing, and then this again. Thread-safe, but one event
  /// loop only. Errors: kFailedPrecondition while a handler takes the notifications.
  Result<bool> arm_notifications();
  /// Spares the peer the ring of the descriptor (shm) while this thread polls in a loop. Call
  /// arm_notifications() at the end of the loop: a thread that waits on the descriptor counts on
  /// it. No effect after the channel's end. Thread-safe.
  void disarm_notifications() { fw_channel_disarm(handle()); }
  /// Passes every later notification to `handler`, in lane order, instead of the queue. nullptr
  /// restores the queue. The handler must not block.
  ///
  /// This call delivers the notifications that are already queued; pollers deliver later ones. With
  /// several lanes, several notifications are delivered at the same time. After the call returns
  /// ok, the previous handler is not running. kDeadlineExceeded if the previous handler has not
  /// returned within `timeout`: it stays in place. kFailedPrecondition inside a handler of this
  /// channel.
  Status on_notification(std::function<void(Notification)> handler,
                         std::chrono::nanoseconds timeout = std::chrono::seconds(5));
  /// Calls `handler` once when the peer's side has ended. This happens after the last notification
  /// was passed to the notification handler, or queued. If that is already over, `handler` is
  /// called immediately.
  ///
  /// `good_order` is true if the peer closed the channel. Otherwise the peer's death is proven or
  /// the channel is broken, and the Status gives the cause. The handler is not called for a silent
  /// peer, nor after close() was called. close() waits for a handler that is running. The handler
  /// replaces an earlier one. It must not block.
  Status on_end(std::function<void(bool good_order, const Status& reason)> handler);

  // --- Memory and names.

  /// Allocates memory that only this peer may write: 64-byte aligned, contents undefined. On a GPU
  /// it takes multiples of 2 MiB and time, so allocate once and reuse it.
  ///
  /// Errors: kResourceExhausted over the limits, or when the GPU is full; kUnsupported where the
  /// fabric does not write into the memory of a GPU; kUnavailable without a CUDA driver;
  /// kInvalidArgument for a GPU that does not exist.
  Result<MemoryRegion> allocate(std::uint64_t bytes, MemoryKind kind = {});
  /// Publishes `region` to this peer under `name`. It replaces an earlier region of that name.
  /// A published region stays alive without a handle until the channel closes.
  /// @param description at most kMaxDescriptionBytes, for example element type and shape; the peer
  /// reads it by RemoteRegion::description()
  Status publish(std::string_view name, const MemoryRegion& region,
                 std::string_view description = {});
  /// Opens the region that the peer published under `name`, and waits until it is published. The
  /// peer has 20 ms to answer, however short `timeout` is. kInvalidArgument for an empty name, or
  /// one of more than kMaxNameBytes.
  Result<RemoteRegion> lookup(std::string_view name,
                              std::chrono::nanoseconds timeout = std::chrono::seconds(5));
  /// Opens a region from its descriptor. kPeerRestarted, kNotFound, kPermissionDenied.
  Result<RemoteRegion> open(const RegionDescriptor& descriptor,
                            std::chrono::nanoseconds timeout = std::chrono::seconds(5));

  // --- The peer and the end.

  /// The peer and the chosen fabric. It does not change, and is valid as long as this handle.
  const PeerInfo& peer() const { return open_->peer; }
  /// The peer's name in messages: "NAME (HOST:PORT)", or the endpoint alone.
  const std::string& peer_name() const { return open_->peer_name; }
  /// The peer's state now.
  PeerState peer_state() const { return static_cast<PeerState>(fw_channel_state(handle())); }
  /// The counts of this channel. They are read one by one, so they may belong to different moments.
  ChannelStats stats() const;

  /// Closes the channel. Ok means that no later byte of the peer can land in this process and that
  /// no callback of this channel runs. Pending operations end with kCancelled. kPeerSilent as for
  /// MemoryRegion::close(). A second close() is ok. kFailedPrecondition inside a callback of this
  /// channel.
  ///
  /// A notification that still waits for the peer to take earlier ones (ChannelStats::backlogged)
  /// may be dropped, even if its write is local_complete. To be sure, let the peer answer first.
  ///
  /// kDeadlineExceeded if a callback, or another thread's call on this channel, has not returned
  /// within `timeout` (nor within 100 ms). Then the channel is closing: every call fails, the peer
  /// may still write into the regions that it was granted, and their memory is not reused. Once
  /// those callbacks and calls have returned, the channel closes by itself within a second. Another
  /// close() waits for that.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1)) {
    return internal::taken(fw_channel_close(handle(), internal::to_ns(timeout)));
  }

  /// True if both handles are of one channel, or of none.
  friend bool operator==(const Channel& a, const Channel& b) {
    return a.open_ == b.open_ || fw_channel_same(a.handle(), b.handle()) != 0;
  }
  /// True if they are not.
  friend bool operator!=(const Channel& a, const Channel& b) { return !(a == b); }

 private:
  bool opened(const RemoteRegion& region) const {
    return fw_remote_is_of(region.handle(), handle()) != 0;
  }
  // The refusal of memory that was not opened through this channel.
  Status refusal(std::string_view operation, const RemoteRegion& region) const {
    return Status::error(StatusCode::kInvalidArgument, {operation, open_->peer_name},
                         region.valid() ? "the peer's memory was opened through another channel"
                                        : "the handle is empty",
                         "use what this channel's lookup() or open() returns");
  }

  std::shared_ptr<const internal::OpenChannel> open_;
};

inline Completion Channel::write(ByteView source, const RemoteRegion& target, std::uint64_t offset,
                                 std::uint32_t lane) {
  if (!opened(target)) return Completion(refusal("write", target));
  fw_completion* posted = nullptr;
  fw_status* const status =
      fw_remote_write(target.handle(), offset, source.data, source.size, lane, &posted);
  return Completion::adopt(status, posted);
}

inline Completion Channel::read(MutableByteView destination, const RemoteRegion& source,
                                std::uint64_t offset, std::uint32_t lane) {
  if (!opened(source)) return Completion(refusal("read", source));
  fw_completion* posted = nullptr;
  fw_status* const status =
      fw_remote_read(source.handle(), offset, destination.data, destination.size, lane, &posted);
  return Completion::adopt(status, posted);
}

inline Completion Channel::write_with_notify(ByteView source, const RemoteRegion& target,
                                             std::uint64_t offset, std::uint32_t tag,
                                             std::uint32_t lane) {
  return write_with_notify(ByteView(), source, target, offset, tag, lane);
}

inline Completion Channel::write_with_notify(ByteView head, ByteView source,
                                             const RemoteRegion& target, std::uint64_t offset,
                                             std::uint32_t tag, std::uint32_t lane) {
  if (!opened(target)) return Completion(refusal("write", target));
  fw_completion* posted = nullptr;
  fw_status* const status = fw_remote_write_notify(target.handle(), offset, head.data, head.size,
                                                   source.data, source.size, tag, lane, &posted);
  return Completion::adopt(status, posted);
}

inline Result<Alias> Channel::alias(const RemoteRegion& source, std::uint64_t offset,
                                    std::uint64_t length, std::chrono::nanoseconds timeout) {
  if (!opened(source)) return refusal("alias", source);
  fw_slice view = {};
  FARWRITE_RETURN_IF_ERROR(internal::taken(
      fw_remote_view(source.handle(), offset, length, internal::to_ns(timeout), &view)));
  return Alias(view, source.kind());
}

inline Status Channel::memcpy(void* local, const RemoteRegion& remote, std::uint64_t offset,
                              std::uint64_t bytes, Direction direction,
                              std::chrono::nanoseconds timeout) {
  if (direction == Direction::kFromRemote) {
    return read({local, bytes}, remote, offset).wait(timeout);
  }
  FARWRITE_RETURN_IF_ERROR(write({local, bytes}, remote, offset).wait(timeout));
  return flush().wait(timeout);
}

inline Completion Channel::lend(ByteView message, ByteView memory, std::function<void()> returned,
                                std::uint32_t tag, std::uint32_t lane) {
  auto kept = returned ? std::make_unique<internal::Returned>(std::move(returned)) : nullptr;
  fw_completion* posted = nullptr;
  fw_status* const status = fw_channel_lend(
      handle(), message.data, message.size, memory.data, memory.size,
      kept != nullptr ? internal::call_returned : nullptr, kept.get(), tag, lane, &posted);
  if (status == nullptr) (void)kept.release();  // the call's end frees it
  return Completion::adopt(status, posted);
}

inline Result<Notification> Channel::wait_notification(std::chrono::nanoseconds timeout) {
  Result<Notification> came{Notification()};
  int taken = 0;
  // For 0 the C ABI looks, and does not say that a handler takes the notifications.
  const std::uint64_t wait = std::max<std::uint64_t>(internal::to_ns(timeout), 1);
  fw_status* const ended =
      fw_channel_take(handle(), wait, internal::keep_notification, &*came, &taken);
  if (ended != nullptr) {
    came = internal::taken(ended);
  } else if (taken == 0) {
    came = internal::late({"wait for a notification", open_->peer_name}, peer_state(),
                          "no notification arrived in time",
                          "wait longer, or check whether the peer is alive");
  }
  return came;
}

inline Result<std::optional<Notification>> Channel::try_notification() {
  Notification came;
  int taken = 0;
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_channel_take(handle(), 0, internal::keep_notification, &came, &taken)));
  return taken != 0 ? std::optional<Notification>(std::move(came)) : std::nullopt;
}

inline Result<int> Channel::notification_descriptor() {
  int descriptor = -1;
  FARWRITE_RETURN_IF_ERROR(internal::taken(fw_channel_descriptor(handle(), &descriptor)));
  return descriptor;
}

inline Result<bool> Channel::arm_notifications() {
  int armed = 0;
  FARWRITE_RETURN_IF_ERROR(internal::taken(fw_channel_arm(handle(), &armed)));
  return armed != 0;
}

inline Status Channel::on_notification(std::function<void(Notification)> handler,
                                       std::chrono::nanoseconds timeout) {
  using Handlers = internal::Context<internal::Handler>;
  if (!handler) {
    return internal::taken(
        fw_channel_on_notification(handle(), nullptr, nullptr, nullptr, internal::to_ns(timeout)));
  }
  return internal::taken(fw_channel_on_notification(handle(), internal::call_handler,
                                                    Handlers::make(std::move(handler)),
                                                    Handlers::release, internal::to_ns(timeout)));
}

inline Status Channel::on_end(std::function<void(bool good_order, const Status& reason)> handler) {
  using Handlers = internal::Context<internal::EndHandler>;
  if (!handler) handler = [](bool, const Status&) {};
  return internal::taken(fw_channel_on_end(handle(), internal::call_end_handler,
                                           Handlers::make(std::move(handler)), Handlers::release));
}

inline Result<MemoryRegion> Channel::allocate(std::uint64_t bytes, MemoryKind kind) {
  fw_region* region = nullptr;
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_channel_allocate(handle(), bytes, kind.to_string().c_str(), &region)));
  return MemoryRegion(region);
}

inline Status Channel::publish(std::string_view name, const MemoryRegion& region,
                               std::string_view description) {
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero("publish", "the name", name));
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero("publish", "the description", description));
  return internal::taken(fw_channel_publish(handle(), std::string(name).c_str(), region.handle(),
                                            std::string(description).c_str()));
}

inline Result<RemoteRegion> Channel::lookup(std::string_view name,
                                            std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero("look up a region", "the name", name));
  fw_remote* remote = nullptr;
  FARWRITE_RETURN_IF_ERROR(internal::taken(
      fw_channel_lookup(handle(), std::string(name).c_str(), internal::to_ns(timeout), &remote)));
  return RemoteRegion(remote);
}

inline Result<RemoteRegion> Channel::open(const RegionDescriptor& descriptor,
                                          std::chrono::nanoseconds timeout) {
  const std::vector<std::byte> bytes = descriptor.to_bytes();
  fw_remote* remote = nullptr;
  FARWRITE_RETURN_IF_ERROR(internal::taken(
      fw_channel_open(handle(), bytes.data(), bytes.size(), internal::to_ns(timeout), &remote)));
  return RemoteRegion(remote);
}

inline ChannelStats Channel::stats() const {
  fw_channel_counts known = {};
  known.struct_size = sizeof(known);
  fw_channel_stats(handle(), &known);
  ChannelStats stats;
  stats.writes = known.writes;
  stats.reads = known.reads;
  stats.aliases = known.aliases;
  stats.bytes_written = known.bytes_written;
  stats.bytes_read = known.bytes_read;
  stats.bytes_aliased = known.bytes_aliased;
  stats.copies = known.copies;
  stats.notifications_sent = known.notifications_sent;
  stats.notifications_received = known.notifications_received;
  stats.messages_sent = known.messages_sent;
  stats.messages_received = known.messages_received;
  stats.backlogged = known.backlogged;
  stats.doorbells = known.doorbells;
  stats.leases_granted = known.leases_granted;
  stats.leases_released = known.leases_released;
  stats.leases_held = known.leases_held;
  stats.quarantined_bytes = known.quarantined_bytes;
  stats.silences = known.silences;
  return stats;
}

FARWRITE_END
