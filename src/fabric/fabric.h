// Fabric: a way to move bytes. The one interface that shm, tcp, verbs and simulated implement.
//
// A Fabric belongs to a device; a Link belongs to a channel and is the fabric's half of it.
// Few methods in all. Nothing here knows names, leases, tensors or processes' identities: the
// device layer above has done the handshake and proved the token before attach() is called.
//
// Threads: every method may be called from any thread. Callbacks (sink, observer, completions) run
// without a fabric lock held.
#pragma once

#include <poll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/deadline.h"
#include "farwrite/bytes.h"
#include "farwrite/channel.h"
#include "farwrite/completion.h"
#include "farwrite/device.h"
#include "farwrite/region.h"
#include "farwrite/status.h"
#include "memory/segment.h"

namespace farwrite::fabric {

// What a fabric can do. The layers above choose by these, never by the fabric's name.
struct Capabilities {
  std::uint64_t max_write_bytes = 0;    // one write or read; longer ones are chunked by the fabric
  std::uint64_t max_message_bytes = 0;  // one message
  bool has_immediate = false;           // a notification can ride on the write itself
  bool has_atomics = false;             // remote fetch-and-add
  bool whole_message_order = false;     // a tail flag in one write is seen last
  bool maps_peer_memory = false;        // RemoteWindow::mapped is set: aliases cost no copy
  bool ends_in_post = false;            // writes and reads are over when post() returns
  bool cpu_free_target = false;         // the target needs no thread for a write to land
  bool serves_reads = false;            // the owner's process sends what is read: may_read()
  bool gpu_memory = false;
};

// How a link reaches one region of its peer. Keeps the mapping alive.
class RemoteWindow {
 public:
  RemoteWindow() = default;
  RemoteWindow(const RemoteWindow&) = delete;
  RemoteWindow& operator=(const RemoteWindow&) = delete;
  virtual ~RemoteWindow() = default;

  std::uint64_t length = 0;           // bytes reachable
  const std::byte* mapped = nullptr;  // the region's first byte, read-only, where the fabric maps
};

enum class OperationKind : std::uint8_t {
  kWrite,    // source -> window + offset; raises `tag` behind the bytes if `notify`
  kRead,     // window + offset -> destination
  kNotify,   // raises `tag`
  kMessage,  // delivers `source` with `tag`
  kFlush,    // done when every write of this link posted before is remote_visible
  kRecord,   // hands `source` with `tag` to the peer's device layer, as a kMessage is delivered
  kEnd,      // nothing of ours follows on this lane; what went before still arrives
};

// A record may be longer than the longest message by this much: it can carry one.
inline constexpr std::uint64_t kRecordHeadroom = 64;

// The device layer has checked lane, bounds and access.
struct Operation {
  OperationKind kind = OperationKind::kWrite;
  bool notify = false;
  std::uint32_t lane = 0;
  std::uint32_t tag = 0;
  std::uint64_t offset = 0;
  ByteView head;  // of a write: lands at `offset`, and `source` right behind it; post() copies it
  ByteView source;
  MutableByteView destination;
  std::shared_ptr<RemoteWindow> window;
};

// Where poll() delivers.
class EventSink {
 public:
  virtual ~EventSink() = default;
  // Whether it takes more. A fabric that has to keep reading whatever its user does hands nothing
  // over while this is false, keeps it, and lets its peer send no more than it can keep.
  virtual bool has_room() const { return true; }
  virtual void on_notification(Notification notification) = 0;
  // What the peer's device layer posted as a kRecord, in lane order with the notifications. Not for
  // users; a sink without a device layer has no use for it.
  virtual void on_record(Notification&& /*record*/) {}
};

// How a link tells the layer above about its peer. From any thread; its end at most once.
class LinkObserver {
 public:
  virtual ~LinkObserver() = default;
  // Proven: the peer's process is gone, the connection reset. Nothing of it lands any more.
  virtual void on_peer_dead(const Status& reason) = 0;
  // The peer broke the protocol: the link is poisoned, the peer may still be alive.
  virtual void on_link_error(const Status& reason) = 0;
  // Whether the peer holds a lease on all these bytes of an export segment. Asked for each read by
  // a fabric that serves reads.
  virtual bool may_read(std::uint64_t /*key*/, std::uint64_t /*offset*/, std::uint64_t /*length*/) {
    return false;
  }
  // A revocation that ended with kPeerSilent would not do so now. Any number of times.
  virtual void on_revoked() {}
};

// What a sleeper needs: the descriptor that tells when the lane has news, and whether it has news
// already (then do not sleep).
struct Doorbell {
  int fd = -1;  // owned by the link; -1: nothing to wait for
  bool ready = false;
  bool holds = false;     // arrivals that found no room in the sink: news once it has some
  short events = POLLIN;  // and what else the link waits for, as poll(2) has it
};

// What one poll of a lane did.
struct Progress {
  std::size_t delivered = 0;  // notifications and records handed to the sink
  bool unsent = false;        // something waits until the doorbell's descriptor takes more
  bool pending = false;       // work is left that no doorbell will announce: poll again soon
  bool drained = false;       // this poll has looked, and nothing is left to hand over
};

// Counts a link keeps for ChannelStats.
struct LinkCounters {
  std::uint64_t copies = 0, backlogged = 0, doorbells = 0;
};

class Link {
 public:
  Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;
  // Ends the link: pending operations end with kCancelled, the observer and sinks are not called
  // again. Landing memory must have been revoked before.
  virtual ~Link() = default;

  // Lets the peer write `length` bytes of a landing segment; returns the key for the descriptor.
  virtual Result<std::uint64_t> grant(const std::shared_ptr<memory::Segment>& segment,
                                      std::uint64_t offset, std::uint64_t length,
                                      std::uint64_t region_id) = 0;
  // Takes back what grant() gave for that region. Ok means: no later byte can land. kPeerSilent
  // means that the peer did not settle in time: call again later, and do not reuse the memory
  // before. Ok also for what was revoked before and for what was never granted: nothing can land
  // there. Several threads may revoke the same. A key may be granted again for another region, so
  // key and region together name what is taken back.
  virtual Status revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline) = 0;

  // Resolves the peer's descriptor to something reachable. May ask the peer.
  virtual Result<std::shared_ptr<RemoteWindow>> import(const RegionDescriptor& descriptor,
                                                       core::Deadline deadline) = 0;

  // Starts an operation. Never blocks for the peer. When the completion is not done, the caller
  // sees to it that the lane is polled.
  virtual Completion post(const Operation& operation) = 0;

  // Makes progress on a lane and delivers what arrived, in order. One thread polls a lane at a
  // time: a second one returns at once with nothing done.
  virtual Progress poll(std::uint32_t lane, EventSink& sink) = 0;

  // Whether poll() may find something to do. One look, by any thread at any time; true where only
  // poll() can tell.
  virtual bool worth_polling(std::uint32_t /*lane*/) const { return true; }

  // Announces that the caller is about to sleep on the lane's doorbell, and takes back earlier
  // rings. Several threads may sleep on one lane; whoever arms must look at the lane when told so.
  virtual Doorbell arm(std::uint32_t lane) = 0;

  // The caller polls the lane from here on, and arms it again before it stops: until then, the peer
  // need not ring for those that sleep. Only where that saves the peer something.
  virtual void disarm(std::uint32_t /*lane*/) {}

  // Takes out of `capabilities`, which are the fabric's, what this peer's side cannot do.
  virtual void refine(Capabilities& /*capabilities*/) const {}

  // The layer above knows that the peer has gone. When it returns, the peer can read nothing here
  // any more; what had arrived still lands and is handed over, and then the lanes are drained.
  // `in_good_order`: the peer closed the channel, so its last bytes may still be under way, and
  // they land too.
  virtual void cut(bool /*in_good_order*/) {}

  // This side has closed the channel and posts nothing more. Sends what is queued, and answers the
  // peer until the peer has ended its sending direction. `last`: the peer awaits no answer, so this
  // side ends its own sending direction behind the queue. Does not block: the caller keeps the
  // lanes polled and calls again. A link that is destroyed before kOver may lose bytes that it has
  // sent.
  enum class Parting {
    kNotNeeded,  // the fabric loses nothing
    kSending,    // the queue still holds something
    kSent,       // the peer has not ended its direction
    kOver,       // both directions have ended
  };
  virtual Parting part(bool /*last*/) { return Parting::kNotNeeded; }

  virtual LinkCounters counters() const = 0;
};

// One side's request to set the fabric's half of a channel up. Both sides call attach() with the
// same `secret`, which the authenticated handshake made for this channel alone.
struct AttachRequest {
  bool connecting = false;             // true on the side that called connect()
  std::array<std::byte, 32> secret{};  // binds the fabric's connection to the handshake
  std::string peer_name;               // "127.0.0.1:7777", for error sentences
  std::string peer_address;            // the accepting side's Fabric::address(), when connecting
  std::string peer_host;               // the peer's numeric address, as the handshake sees it
  std::uint32_t lanes = 1;
  bool encrypt = false;  // what leaves the host: under keys made from `secret`, or fail
  core::Deadline deadline = core::Deadline::never();
  // Asked now and then while the accepting side waits for its peer; true ends the wait at once.
  std::function<bool()> abandoned;
  LinkObserver* observer = nullptr;  // outlives the link
};

class Fabric {
 public:
  Fabric() = default;
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;
  virtual ~Fabric() = default;

  virtual FabricKind kind() const = 0;
  virtual const Capabilities& capabilities() const = 0;

  // Lets attached peers read an export segment: what they hold leases on, where the fabric serves
  // reads, else all of it. Returns the key for descriptors. Called once per segment, never per
  // region.
  virtual Result<std::uint64_t> register_segment(
      const std::shared_ptr<memory::Segment>& segment) = 0;

  // How an authenticated peer finds this fabric; opaque to the layers above.
  virtual std::string address() const = 0;

  // Registers memory of the user's own until the handle goes, for transfers from it and, if
  // `writable`, to it. Null: this fabric has no use for that.
  virtual Result<std::shared_ptr<const void>> register_memory(ByteView /*memory*/,
                                                              bool /*writable*/) {
    return std::shared_ptr<const void>();
  }
  // What adapters have registered; zeros where there are none.
  virtual AdapterStats registration_counters() const { return {}; }

  // Makes a link, from either side. Fails with kUnavailable and the reason when the peer cannot be
  // reached this way (another host, say).
  virtual Result<std::unique_ptr<Link>> attach(const AttachRequest& request) = 0;
};

}  // namespace farwrite::fabric
