// Fabric: a way to move bytes. The one interface that shm, tcp, verbs and simulated implement.
//
// A Fabric belongs to a device, a Link to a channel, a Lane to a link. Nothing here knows names,
// leases, tensors or processes' identities: the device layer above has done the handshake and
// proved the token before attach() is called.
//
// Threads: every method may be called from any thread. Callbacks (sink, observer, completions) run
// without a fabric lock held.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/deadline.h"
#include "fabric/attach_request.h"
#include "fabric/operation.h"
#include "farwrite/completion.h"
#include "farwrite/device.h"
#include "farwrite/region.h"
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
  bool may_refuse_segments = false;  // register_segment() may fail where other fabrics suffice
};

// An ordered stream of notifications, and the writes and reads beside them.
class Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  virtual ~Lane() = default;

  // Starts an operation. Never blocks for the peer. When the completion is not done, the caller
  // sees to it that the lane is polled; for a flush, every lane of the link.
  virtual Completion post(const Operation& operation) = 0;

  // Makes progress and delivers what arrived, in order. One thread polls a lane at a time: a second
  // one returns at once with nothing done.
  virtual Progress poll(EventSink& sink) = 0;

  // Whether poll() may find something to do. One look, by any thread at any time; true where only
  // poll() can tell.
  virtual bool worth_polling() const { return true; }

  // Announces that the caller is about to sleep on the doorbell, and takes back earlier rings.
  // Several threads may sleep on one lane; whoever arms must look at the lane when told so.
  virtual Doorbell arm() = 0;

  // The caller polls from here on, and arms again before it stops: until then, the peer need not
  // ring for those that sleep. Only where that saves the peer something.
  virtual void disarm() {}
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

  // One of the AttachRequest::lanes; valid as long as the link. The device layer has checked
  // `index`.
  virtual Lane& lane(std::uint32_t index) = 0;

  // Lets the peer write `length` bytes of a landing segment; returns the key for the descriptor.
  virtual Result<std::uint64_t> grant(const std::shared_ptr<memory::Segment>& segment,
                                      std::uint64_t offset, std::uint64_t length,
                                      std::uint64_t region_id) = 0;
  // Takes back what grant() gave. Ok means: no later byte can land. kPeerSilent means that the peer
  // did not settle in time: call again later, and do not reuse the memory before. Ok also for what
  // was revoked before, or never granted. Several threads may revoke the same. A key may be granted
  // again for another region, so key and region together name what is taken back.
  virtual Status revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline) = 0;

  // Resolves the peer's descriptor to something reachable. May ask the peer.
  virtual Result<std::shared_ptr<RemoteWindow>> import(const RegionDescriptor& descriptor,
                                                       core::Deadline deadline) = 0;

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
