// SendQueue: one lane's work requests with the adapter, and their completions.
//
// Large sources travel from where they lie, under their registration. Small ones travel inside the
// work request, or, if their memory is not registered, from a buffer of ours (counted as a copy).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "core/completion_state.h"
#include "core/counter.h"
#include "fabric/verbs/adapter.h"
#include "fabric/verbs/completion_queue.h"
#include "fabric/verbs/lane_memory.h"
#include "fabric/verbs/revocations.h"

namespace farwrite::fabric::verbs {

struct SenderCounters {
  core::Counter copies, immediates, messages, flushes, inlined;
};

// One operation on its way to the adapter.
struct Work {
  enum class Kind : std::uint8_t { kWrite, kRead, kFlush, kMessage };

  Kind kind = Kind::kWrite;
  bool notify = false;  // a write's last request carries `tag`
  bool costs_credit = false;
  bool is_control = false;
  bool accepted = false;  // Operation::accepted
  std::uint32_t tag = 0;
  std::uint64_t remote = 0;
  std::uint32_t remote_key = 0;
  std::shared_ptr<VerbsWindow> window;
  std::vector<std::byte> own;  // bytes of ours that go first: a head, a copy, a message
  ByteView source;
  MutableByteView destination;
  std::shared_ptr<Registration> registration;
  std::uint64_t posted = 0;  // bytes
  Status given_up;           // why it was dropped
  std::shared_ptr<core::CompletionState> completion;

  std::uint64_t bytes() const { return own.size() + source.size + destination.size; }
};

// Under the sender's lock, but for failed().
class SendQueue {
 public:
  SendQueue(Adapter& adapter, LaneMemory& memory, WorkPlace place);

  // Before anything is posted.
  void begin(ibv_qp* pair, const CompletionQueue::QueueShare& queue);
  // The peer's memory is relaxed-ordered: a read flushes nothing there.
  void flush_by_atomic() { flush_by_atomic_ = true; }
  // Gives the adapter the next work request of `work`: a chunk of a large transfer, all of a small
  // one. False: no room now, or the adapter refused it and has failed().
  bool post(Work& work, Finished& finished);
  // Work of which the adapter still moves a part was given up: its completion ends, with `reason`,
  // when the newest work request does. False if there is none under way.
  bool end_with_newest(Work& work, const Status& reason);

  // A work request's completion. `ended`: why the lane takes nothing more; a failure sets it if
  // nothing did before.
  void on_sent(const ibv_wc& completion, std::uint32_t number, Status& ended, Finished& finished);
  // Nothing is under way any more, because the queue pair has gone.
  void settle(const Status& reason, Finished& finished);

  // Flushes under way.
  std::size_t flushes() const { return flushes_; }
  // The queue pair works no more: failure() says why. From any thread.
  bool failed() const { return failed_.load(); }
  const Status& failure() const { return failure_; }
  enum class Cause : std::uint8_t {
    kNone,
    kFlushed,   // the connection was over before the work's turn
    kPeerGone,  // the peer, or the way to it
    kRule,      // something broke a rule, or an adapter failed
  };
  Cause cause() const { return cause_; }
  SenderCounters& counters() { return counters_; }

 private:
  // One work request under way.
  struct Posted {
    Work::Kind kind = Work::Kind::kWrite;
    bool signalled = false;
    int buffer = -1;
    std::shared_ptr<core::CompletionState> completion;
    Status outcome;  // what the completion says if all goes well
    std::shared_ptr<Registration> registration;
  };

  int take_buffer(ByteView bytes);
  void finish_front(const Status& status, Finished& finished);
  Status refused(std::string_view what, int error) const;

  Adapter& adapter_;
  LaneMemory& memory_;
  const WorkPlace place_;
  const LaneLimits limits_;

  ibv_qp* pair_ = nullptr;
  CompletionQueue::QueueShare queue_share_;
  bool flush_by_atomic_ = false;
  std::deque<Posted> under_way_;
  std::uint32_t next_number_ = 0;  // of the next work request; 31 bits
  std::uint32_t unsignalled_ = 0;
  std::vector<int> free_buffers_;
  std::size_t flushes_ = 0;
  Status failure_;
  Cause cause_ = Cause::kNone;
  std::atomic<bool> failed_{false};
  SenderCounters counters_;
};

}  // namespace farwrite::fabric::verbs
