// Channel: the link from the local device to a remote one.
//
// Ordering and visibility, the same on every fabric:
//   - Writes are unordered unless flushed or notified, also two writes on one lane.
//   - Notifications are ordered on one lane and unordered across lanes.
//   - A write's Completion means local_complete: the source may be reused.
//   - flush(): every earlier write of this channel is remote_visible.
//   - write_with_notify(tag): when the target takes the notification, every byte of that write is
//     visible to its CPU.
//   - A peer that dies poisons its channels: every pending operation ends with an error within the
//     detection time. A peer that is silent keeps them pending; it may come back.
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
namespace transfer {
class Port;
}

// What a peer raised here: a tag after its bytes, or a short message with a tag.
struct Notification {
  std::uint32_t tag = 0;
  std::uint32_t lane = 0;
  std::vector<std::byte> message;  // empty unless it came from Channel::send or lend
  RemoteRegion lent = {};          // valid() if it came from lend: leased already
};

// The longest head of a write.
inline constexpr std::uint64_t kMaxHeadBytes = 512;

// How the notification of a write is made of what a fabric has. The numbers are part of the wire
// protocol: never renumber.
enum class NotificationLowering : std::uint8_t {
  kImmediate = 1,        // it rides on the write itself
  kFlushAndMessage = 2,  // the write, a flush, then a notification of its own
  kTailFlag = 3,         // the write's last word, which the receiver polls; for slots only
};

// "tail flag"
FARWRITE_API std::string_view to_string(NotificationLowering lowering);

enum class Direction : std::uint8_t { kToRemote, kFromRemote };

enum class PeerState : std::uint8_t {
  kAlive,
  kSilent,  // said nothing for the detection time; quarantined, may come back
  kClosed,  // the channel was closed in good order, by the peer or here
  kDead,    // its death is proven
};

FARWRITE_API std::string_view to_string(PeerState state);

struct PeerInfo {
  Endpoint endpoint;  // where the peer listens
  std::string name;   // DeviceOptions::name of the peer, as the peer says; for messages alone
  DeviceUuid uuid{};
  std::uint64_t epoch = 0;
  FabricKind fabric = FabricKind::kShm;
  std::string fabric_reason;  // why this fabric was chosen, one sentence
  std::uint32_t lanes = 0;
  bool encrypted = false;  // what of this channel leaves the host, see DeviceOptions::encrypt
};

// Counts since the channel was opened.
struct ChannelStats {
  std::uint64_t writes = 0, reads = 0, aliases = 0;
  std::uint64_t bytes_written = 0, bytes_read = 0, bytes_aliased = 0;
  std::uint64_t copies = 0;  // passes over payload bytes by this process's CPU
  std::uint64_t notifications_sent = 0, notifications_received = 0;
  std::uint64_t messages_sent = 0, messages_received = 0;
  std::uint64_t backlogged = 0;         // notifications that waited for ring space
  std::uint64_t doorbells = 0;          // times a sleeping peer had to be woken
  std::uint64_t leases_granted = 0;     // to this peer, by this device
  std::uint64_t leases_released = 0;    // by the peer, or by its proven death
  std::uint64_t leases_held = 0;        // of the peer's regions, by this device, now
  std::uint64_t quarantined_bytes = 0;  // now
  std::uint64_t silences = 0;           // times the peer fell silent
};

// Copies share the channel; it closes when close() is called or the last handle is gone.
// Thread-safe: any thread may call anything at any time. `lane` is below PeerInfo::lanes.
class FARWRITE_API Channel {
 public:
  Channel() = default;
  explicit Channel(std::shared_ptr<device::ChannelState> state) : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  // --- One-sided transfers (paper section 3.1). Local memory may be any memory of this process; it
  // must stay valid until the Completion is settled. On shm the calling thread makes the one copy
  // before the call returns.

  Completion write(ByteView source, const RemoteRegion& target, std::uint64_t offset = 0,
                   std::uint32_t lane = 0);
  Completion read(MutableByteView destination, const RemoteRegion& source, std::uint64_t offset = 0,
                  std::uint32_t lane = 0);
  Completion write_with_notify(ByteView source, const RemoteRegion& target, std::uint64_t offset,
                               std::uint32_t tag, std::uint32_t lane = 0);
  // One write of two pieces: `head` (at most kMaxHeadBytes, free again when the call returns) lands
  // at `offset`, `source` right behind it.
  Completion write_with_notify(ByteView head, ByteView source, const RemoteRegion& target,
                               std::uint64_t offset, std::uint32_t tag, std::uint32_t lane = 0);
  Completion flush();

  // A view of the peer's bytes without a copy. kUnsupported where the fabric cannot map them. The
  // first view of lent memory may wait for the peer, as long as it lives and the channel is open:
  // not from a handler.
  Result<Alias> alias(const RemoteRegion& source, std::uint64_t offset, std::uint64_t length);

  // The paper's facade over write + flush and read; returns when the bytes are where they belong.
  Status memcpy(void* local, const RemoteRegion& remote, std::uint64_t offset, std::uint64_t bytes,
                Direction direction, std::chrono::nanoseconds timeout = kForever);

  // --- Notifications and short messages.

  // A notification without bytes, behind earlier ones of its lane.
  Completion notify(std::uint32_t tag, std::uint32_t lane = 0);
  // A message of at most max_message_bytes(), for addresses and other small things.
  Completion send(ByteView message, std::uint32_t tag = 0, std::uint32_t lane = 0);
  std::uint64_t max_message_bytes() const;
  // Whether alias() works: the fabric maps the peer's memory. If not, read().
  bool maps_peer_memory() const;

  // A message, and with it a lease on `memory`, which lies wholly in one segment of this device's
  // send memory (Device::contains): the peer finds it in Notification::lent and looks at it without
  // asking. `returned` runs exactly once, on any thread: when the peer has dropped the last handle
  // and Alias, its death is proven, or this device closes. It must not block. It never runs if the
  // Completion is done with an error when lend() returns. Until it runs, the bytes must neither
  // change nor be freed. kResourceExhausted over send_limit_per_peer; kUnsupported if the peer
  // speaks wire version 1.
  Completion lend(ByteView message, ByteView memory, std::function<void()> returned,
                  std::uint32_t tag = 0, std::uint32_t lane = 0);

  // Takes the next notification of any lane: polls for DeviceOptions::spin, then blocks. Waits on
  // while the peer is silent. After a peer's death, what had arrived is still delivered first.
  Result<Notification> wait_notification(std::chrono::nanoseconds timeout = kForever);
  // Takes one if it is there; never blocks.
  Result<std::optional<Notification>> try_notification();
  // From now on `handler` gets notifications, in lane order, instead of the queue; nullptr goes
  // back to the queue. What is queued already is delivered by this call, later ones by pollers;
  // several at once if there are several lanes. The handler must not block. After the call returns
  // ok the previous handler is not running. kDeadlineExceeded if that handler has not returned in
  // `timeout`: it stays. Called inside a handler of this channel, it fails with
  // kFailedPrecondition.
  Status on_notification(std::function<void(Notification)> handler,
                         std::chrono::nanoseconds timeout = std::chrono::seconds(5));
  // `handler` is called once, when the peer has gone: after the last notification was handed to the
  // notification handler, or queued; at once if that is over already. `good_order`: the peer closed
  // the channel; otherwise its death is proven or the channel is broken, and the Status says why.
  // Not called for a silent peer, nor once close() was called, which waits for one that runs.
  // Replaces an earlier handler. It must not block.
  Status on_end(std::function<void(bool good_order, const Status& reason)> handler);

  // --- Memory and names.

  // Memory that this peer, and nobody else, may write. 64-byte aligned, contents undefined.
  Result<MemoryRegion> allocate(std::uint64_t bytes);
  // Shows `region` to this peer under `name`; replaces an earlier one of that name. `description`
  // (at most kMaxDescriptionBytes) goes with it, see RemoteRegion::description(): element type and
  // shape, say. A published region lives on without a handle, until the channel closes.
  Status publish(std::string_view name, const MemoryRegion& region,
                 std::string_view description = {});
  // Opens what the peer published under `name`, waiting for it to appear. kInvalidArgument for an
  // empty name, or one of more than kMaxNameBytes.
  Result<RemoteRegion> lookup(std::string_view name,
                              std::chrono::nanoseconds timeout = std::chrono::seconds(5));
  // Opens a region from its descriptor. kPeerRestarted, kNotFound, kPermissionDenied.
  Result<RemoteRegion> open(const RegionDescriptor& descriptor,
                            std::chrono::nanoseconds timeout = std::chrono::seconds(5));

  // --- The peer and the end.

  const PeerInfo& peer() const;
  // How messages name the peer: "NAME (HOST:PORT)", or the endpoint alone.
  const std::string& peer_name() const;
  PeerState peer_state() const;
  ChannelStats stats() const;

  // Ok means that no later byte of the peer can land here and no callback of this channel runs;
  // pending operations end with kCancelled. kPeerSilent as MemoryRegion::close(). Closing twice is
  // ok. Called inside a callback of this channel: kFailedPrecondition.
  //
  // kDeadlineExceeded if a callback, or another thread's call on this channel, has not returned in
  // `timeout` (nor in 100 ms). Then the channel is closing: every call fails, the peer may still
  // write into the regions it was granted, and their memory is not used again. Once those callbacks
  // and calls have returned, the channel closes by itself within a second; close() may be called
  // again to wait for that.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  friend class Device;
  friend class transfer::Port;
  std::shared_ptr<device::ChannelState> state_;
};

}  // namespace farwrite
