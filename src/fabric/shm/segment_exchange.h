// SegmentExchange: how two attached processes hand each other segments.
//
// A segment's descriptor is asked for when the first region inside it is opened, and mapped once; a
// GPU's, while nothing has it mapped.
// Requests and answers are packets on the link's unix socket, served by the device's event loop.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "core/deadline.h"
#include "core/event_loop.h"
#include "core/mutex.h"
#include "core/unique_fd.h"
#include "fabric/shm/packet_socket.h"
#include "farwrite/status.h"
#include "gpu/gpu.h"
#include "memory/segment.h"

namespace farwrite::fabric::shm {

// Finds a segment that this peer may map, or null.
using FindSegment = std::function<std::shared_ptr<memory::Segment>(std::uint32_t segment_id)>;

// Thread-safe.
class SegmentExchange {
 public:
  // `on_closed` is called on the loop's thread, once, when the peer's socket ends or breaks. What
  // is mapped keeps `witness`, and is unmapped when nothing has used it for `idle_time`. `spare` is
  // a descriptor to give up where the peer hands over memory and none is left; may be none.
  SegmentExchange(core::UniqueFd socket, core::UniqueFd spare, core::EventLoop& loop,
                  std::string peer, std::chrono::nanoseconds idle_time, FindSegment find,
                  std::shared_ptr<const void> witness,
                  std::function<void(const Status&)> on_closed);
  ~SegmentExchange();
  // Begins to serve the peer: when whatever the callbacks touch is in place.
  void start();
  // After this `on_closed` is not running and never will. Idempotent.
  void stop();
  SegmentExchange(const SegmentExchange&) = delete;
  SegmentExchange& operator=(const SegmentExchange&) = delete;

  // The peer's segment, mapped; asks the peer the first time. Must not be called on the loop's
  // thread, which the answer needs.
  Result<std::shared_ptr<memory::MappedSegment>> obtain(std::uint32_t segment_id,
                                                        core::Deadline deadline);
  // Ends every obtain() with `reason`, now and later. `dead`: that the peer's process is gone is
  // proven, and the reason then replaces an earlier one.
  void fail(const Status& reason, bool dead = false);

 private:
  void on_readable();
  // Unmaps what nothing has used for the idle time.
  void drop_idle();
  // Gives the spare descriptor up and asks again for a segment whose own was lost; false if that
  // cannot be.
  bool ask_again(std::uint32_t segment_id);
  // No more of this peer: it left, or broke the protocol. On the loop's thread.
  void end(const Status& reason);
  void answer(std::uint32_t segment_id);
  // What the peer says of a segment that it hands over.
  struct SegmentAnswer {
    bool found = false;
    bool writable = false;
    std::uint64_t bytes = 0;
    std::optional<gpu::GpuUuid> gpu;
    core::UniqueFd fd;
    Status refused;  // why there is no `fd`
  };
  void take_answer(std::uint32_t segment_id, SegmentAnswer answer);

  struct Import {
    // Null: not mapped, or no longer.
    std::shared_ptr<memory::MappedSegment> get() const {
      return mapped != nullptr ? mapped : on_gpu.lock();
    }

    std::shared_ptr<memory::MappedSegment> mapped;
    std::weak_ptr<memory::MappedSegment> on_gpu;  // its memory is free once all regions have gone
    std::optional<SegmentAnswer>
        unmapped;  // for the caller to map: the loop must not wait for that
    Status failure;
    bool requested = false;
    int users = 0;  // calls of obtain() under way
    std::int64_t used_at = 0;

    // Nothing is lost with it.
    bool forgotten() const { return users == 0 && !requested && get() == nullptr; }
  };

  Result<std::shared_ptr<memory::MappedSegment>> obtain_locked(std::uint32_t segment_id,
                                                               Import& import,
                                                               core::Deadline deadline)
      FW_REQUIRES(mutex_);

  void wait_for_proof_of_death(core::Deadline deadline) FW_REQUIRES(mutex_);

  // These two release the mutex meanwhile. map(): what the peer has handed over, or that it has
  // nothing.
  Result<std::shared_ptr<memory::MappedSegment>> map(SegmentAnswer answer) FW_REQUIRES(mutex_);
  Status request(std::uint32_t segment_id, core::Deadline deadline) FW_REQUIRES(mutex_);

  const core::UniqueFd socket_;
  core::UniqueFd spare_;  // of the loop's thread
  core::EventLoop& loop_;
  const std::string peer_;
  const std::chrono::nanoseconds idle_time_;
  core::EventLoop::TimerId timer_ = 0;
  const FindSegment find_;
  const std::shared_ptr<const void> witness_;
  std::function<void(const Status&)> on_closed_;

  core::Mutex mutex_{core::LockRank::kShm};
  core::CondVar changed_;
  std::map<std::uint32_t, Import> imports_ FW_GUARDED_BY(mutex_);
  Status ended_ FW_GUARDED_BY(mutex_);
  bool dead_ FW_GUARDED_BY(mutex_) = false;      // the peer's process, as has been proven
  bool lives_on_ FW_GUARDED_BY(mutex_) = false;  // the socket has ended, and no death has followed
};

}  // namespace farwrite::fabric::shm
