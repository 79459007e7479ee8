// Lane: an ordered stream of notifications, and the writes and reads beside them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/completion.h"
#include "fabric/operation.h"

namespace farwrite::fabric {

// Threads: as fabric.h says.
class Lane {
 public:
  Lane() = default;
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  virtual ~Lane() = default;

  // Starts an operation. Never blocks for the peer. When the completion is not done, the caller
  // sees to it that the lane is polled; for a flush, every lane of the link.
  virtual Completion post(const Operation& operation) = 0;

  // A short way for notified writes of up to so many bytes, whose cost is that of the calls. False:
  // nothing was notified, and post() does it or says why not. The device layer has checked bounds
  // and access.
  static constexpr std::uint64_t kSmallBytes = 4096;
  virtual bool write_small(RemoteWindow& /*window*/, std::uint64_t /*offset*/, ByteView /*source*/,
                           std::uint32_t /*tag*/) {
    return false;
  }
  // The same for a thread that waits for one notification: takes the next one if that is all tag,
  // without bytes and lease, and nothing that came before waits in `queued`. Looks `looks` times
  // while there is nothing. False: poll() says what there is.
  virtual bool take_bare(int /*looks*/, const std::atomic<std::size_t>& /*queued*/,
                         std::uint32_t& /*tag*/) {
    return false;
  }

  // Makes progress and delivers what arrived, in order. One thread polls a lane at a time: a second
  // one returns at once with nothing done.
  virtual Progress poll(EventSink& sink) = 0;

  // Whether poll() may find something to do. Any thread may ask at any time. True where only poll()
  // can find out.
  virtual bool worth_polling() const { return true; }

  // Announces that the caller is about to sleep on the doorbell, and takes back earlier rings.
  // Several threads may sleep on one lane. If the doorbell is ready, the caller polls first.
  virtual Doorbell arm() = 0;

  // Whether the doorbell of a thread that has armed announces the progress of all that is pending.
  virtual bool rings_for_pending() const { return false; }

  // The caller polls from here on, and arms again before it stops. Until then the peer need not
  // ring. Does nothing where that saves the peer nothing.
  virtual void disarm() {}

  // Ends a disarm() on behalf of another thread, which still sleeps on the doorbell. False:
  // something may have come meanwhile, and the caller wakes that thread.
  virtual bool rearm() { return true; }
};

}  // namespace farwrite::fabric
