/// @file
/// Channel: the link from the local device to a remote one.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/completion.h"
#include "farwrite/export.h"
#include "farwrite/region.h"
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

/// A notification from the peer: the tag of a write that has landed, or a short message with a tag.
struct Notification {
  std::uint32_t tag = 0;           ///< the number that the sender chose
  std::uint32_t lane = 0;          ///< the lane that it came on
  std::vector<std::byte> message;  ///< empty unless the peer called Channel::send() or lend()
  RemoteRegion lent = {};          ///< valid() if the peer called lend(); already leased
};

/// The longest head of a write, in bytes.
inline constexpr std::uint64_t kMaxHeadBytes = 512;

/// How a fabric's primitives implement the notification of a write. The numbers are part of the
/// wire protocol: never renumber.
enum class NotificationLowering : std::uint8_t {
  kImmediate = 1,        ///< the write itself carries the notification
  kFlushAndMessage = 2,  ///< the write, a flush, then a separate notification
  kTailFlag = 3,         ///< the write's last word, which the receiver polls; for slots only
};

/// The name of the lowering: "tail flag".
FARWRITE_API std::string_view to_string(NotificationLowering lowering);

/// The direction of Channel::memcpy().
enum class Direction : std::uint8_t {
  kToRemote,    ///< write and flush
  kFromRemote,  ///< read
};

/// The state of a channel's peer.
enum class PeerState : std::uint8_t {
  kAlive,   ///< sent something within the detection time
  kSilent,  ///< sent nothing for the detection time; quarantined, may come back
  kClosed,  ///< the peer or this side closed the channel normally
  kDead,    ///< the peer's death is proven
};

/// The name of the state: "alive".
FARWRITE_API std::string_view to_string(PeerState state);

/// The peer of a channel, and how the channel reaches it.
struct PeerInfo {
  Endpoint endpoint;        ///< where the peer listens
  std::string name;         ///< the peer's DeviceOptions::name, unverified; only for messages
  std::string service;      ///< "box" for the server of a box, unverified; empty for other devices
  DeviceUuid uuid{};        ///< the peer's Device::uuid()
  std::uint64_t epoch = 0;  ///< the peer's Device::epoch()
  FabricKind fabric = FabricKind::kShm;  ///< the fabric of this channel
  std::string fabric_reason;             ///< why this fabric was chosen, one sentence
  std::uint32_t lanes = 0;               ///< number of lanes; valid lanes are 0 to lanes - 1
  /// Traffic that leaves the host is encrypted, see DeviceOptions::encrypt.
  bool encrypted = false;
};

/// Counts since the channel was opened, unless a field describes the present.
struct ChannelStats {
  std::uint64_t writes = 0;                  ///< posted writes, with and without a notification
  std::uint64_t reads = 0;                   ///< posted reads
  std::uint64_t aliases = 0;                 ///< views that alias() made
  std::uint64_t bytes_written = 0;           ///< bytes of the posted writes
  std::uint64_t bytes_read = 0;              ///< bytes of the posted reads
  std::uint64_t bytes_aliased = 0;           ///< bytes of the views
  std::uint64_t copies = 0;                  ///< passes over payload bytes by this process's CPU
  std::uint64_t notifications_sent = 0;      ///< without a message
  std::uint64_t notifications_received = 0;  ///< without a message
  std::uint64_t messages_sent = 0;           ///< with a message, by send() and lend()
  std::uint64_t messages_received = 0;       ///< with a message
  std::uint64_t backlogged = 0;              ///< notifications that waited for ring space
  std::uint64_t doorbells = 0;               ///< times that a sleeping peer had to be woken
  std::uint64_t leases_granted = 0;          ///< leases that this device granted to this peer
  std::uint64_t leases_released = 0;         ///< leases ended by the peer or by its proven death
  std::uint64_t leases_held = 0;        ///< leases on the peer's regions that this device holds now
  std::uint64_t quarantined_bytes = 0;  ///< bytes in quarantine now
  std::uint64_t silences = 0;           ///< times that the peer became silent
};

/// The link from the local device to a remote one.
///
/// Copies share the channel. It closes when close() is called or the last handle is gone. The
/// channel is thread-safe: any thread may make any call at any time. A `lane` argument is below
/// PeerInfo::lanes.
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
class FARWRITE_API Channel {
 public:
  Channel() = default;
  /// @private Made by Device::connect() and Device::accept().
  explicit Channel(std::shared_ptr<device::ChannelState> state) : state_(std::move(state)) {}
  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return state_ != nullptr; }

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
  Completion flush();

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
  Completion notify(std::uint32_t tag, std::uint32_t lane = 0);
  /// Sends a message of at most max_message_bytes(), for addresses and other small data.
  Completion send(ByteView message, std::uint32_t tag = 0, std::uint32_t lane = 0);
  /// The longest message of send() and lend(), in bytes. It depends on the fabric.
  std::uint64_t max_message_bytes() const;
  /// True if alias() works: the fabric maps the peer's memory. If false, use read().
  bool maps_peer_memory() const;

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
  void disarm_notifications();
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
  /// Opens the region that the peer published under `name`, and waits until it is published.
  /// kInvalidArgument for an empty name, or one of more than kMaxNameBytes.
  Result<RemoteRegion> lookup(std::string_view name,
                              std::chrono::nanoseconds timeout = std::chrono::seconds(5));
  /// Opens a region from its descriptor. kPeerRestarted, kNotFound, kPermissionDenied.
  Result<RemoteRegion> open(const RegionDescriptor& descriptor,
                            std::chrono::nanoseconds timeout = std::chrono::seconds(5));

  // --- The peer and the end.

  /// The peer and the chosen fabric. It does not change, and is valid as long as this handle.
  const PeerInfo& peer() const;
  /// The peer's name in messages: "NAME (HOST:PORT)", or the endpoint alone.
  const std::string& peer_name() const;
  /// The peer's state now.
  PeerState peer_state() const;
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
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

  /// True if both handles are of one channel.
  friend bool operator==(const Channel& a, const Channel& b) { return a.state_ == b.state_; }
  /// True if they are not.
  friend bool operator!=(const Channel& a, const Channel& b) { return !(a == b); }

 private:
  friend class Device;
  friend class box::Session;
  friend class transfer::Engine;
  friend class transfer::Port;
  std::shared_ptr<device::ChannelState> state_;
};

}  // namespace farwrite
