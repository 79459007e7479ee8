// Link: a fabric's half of a channel.
#pragma once

#include <cstdint>
#include <memory>

#include "core/deadline.h"
#include "core/region_descriptor.h"
#include "fabric/capabilities.h"
#include "fabric/lane.h"
#include "fabric/operation.h"
#include "farwrite/status.h"
#include "memory/segment.h"

namespace farwrite::fabric {

// Counts a link keeps for ChannelStats.
struct LinkCounters {
  std::uint64_t copies = 0, backlogged = 0, doorbells = 0;
};

// Threads: as fabric.h says.
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

  // This side has closed the channel. Where the peer's process answers reads, those under way end
  // with `reason`, and no byte of their answers lands once this returns.
  virtual void end_reads(const Status& /*reason*/) {}

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

  // The peer's process is gone. Whether forked children of it may still read what it had mapped of
  // this side's memory. One thread at a time.
  virtual bool read_by_children() { return false; }

  virtual LinkCounters counters() const = 0;
};

}  // namespace farwrite::fabric
