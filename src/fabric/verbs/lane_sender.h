// LaneSender: what one side posts on one lane's queue pair, in order.
//
// A work request goes to the adapter at once while the send queue has room; what finds none waits
// here and follows when completions come. What the peer has to take out (notifications, messages,
// records) costs a credit; without one it is held back, and the writes and reads behind it pass.
//
// Large sources travel from where they lie, under their registration. Small ones travel inside the
// work request, or, if their memory is not registered, from a slot of ours (counted as a copy).
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/completion_state.h"
#include "core/counter.h"
#include "fabric/fabric.h"
#include "fabric/outbox.h"
#include "fabric/verbs/adapter.h"
#include "fabric/verbs/completion_queue.h"
#include "fabric/verbs/lane_memory.h"
#include "fabric/verbs/protocol.h"
#include "fabric/verbs/verbs_window.h"
#include "fabric/verbs/work_completion.h"

namespace farwrite::fabric::verbs {

struct SenderCounters {
  core::Counter copies, immediates, messages, flushes, inlined;
};

// Thread-safe.
class LaneSender {
 public:
  LaneSender(Adapter& adapter, LaneMemory& memory, WorkPlace place);

  // The lane is connected: what follows goes out.
  void begin(ibv_qp* pair, const CompletionQueue::Place& queue, const HelloMessage& peer);
  // Before that, for the proofs and hellos.
  Status send_setup(ibv_qp* pair, const CompletionQueue::Place& queue, MessageType type,
                    ByteView payload);

  // Any operation but a flush, which is of all lanes.
  Completion post(const Operation& operation);
  // Reads the peer's word behind every write so far. False if none needs it.
  bool flush(const std::shared_ptr<core::CompletionState>& completion);
  // Messages that cost no credit. False if too many wait: the peer asks and takes no answers.
  bool control(MessageType type, std::uint64_t value, ByteView payload = {});
  // False if the peer says more than there ever was. pump() afterwards.
  bool add_credit(std::uint64_t count);

  // A send's completion; under the completion queue's lock.
  void on_sent(const ibv_wc& completion, std::uint32_t number, Finished& finished);
  void pump(Finished& finished);

  // Whatever has not gone to the adapter ends with `reason`, now and later.
  void end(const Status& reason);
  // Nothing is under way any more, because the queue pair has gone.
  void settle(const Status& reason);
  // The queue pair works no more: failure() says why.
  bool failed() const { return failed_.load(); }
  Status failure() const;
  enum class Cause : std::uint8_t {
    kNone,
    kFlushed,   // the connection was over before the work's turn
    kPeerGone,  // the peer, or the way to it
    kRule,      // somebody broke a rule, or an adapter failed
  };
  Cause cause() const;
  const SenderCounters& counters() const { return counters_; }
  std::uint64_t backlogged() const { return outbox_.backlogged(); }

 private:
  enum class Kind : std::uint8_t { kWrite, kRead, kFlush, kMessage };
  // One operation on its way to the adapter.
  struct Work {
    Kind kind = Kind::kWrite;
    bool notify = false;  // a write's last request carries `tag`
    bool costs_credit = false;
    bool is_control = false;
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
  };
  // One work request under way.
  struct Posted {
    Kind kind = Kind::kWrite;
    bool signalled = false;
    int slot = -1;
    std::shared_ptr<core::CompletionState> completion;
    Status outcome;  // what the completion says if all goes well
    std::shared_ptr<Registration> registration;
  };

  Completion write(const Operation& operation);
  Completion read(const Operation& operation);
  Completion notify(MessageType type, const Operation& operation);
  Completion end_lane();
  Completion submit(Work&& work);
  bool post_all_locked(Work& work, Finished& finished);
  bool post_one_locked(Work& work, Finished& finished);
  static Weight weight_of(const Work& work);
  void release_held_locked();
  bool is_dropped(const Work& work) const;
  Status revoked() const;
  Status refused(std::string_view what, int error) const;
  int take_slot_locked(ByteView bytes);
  bool give_up_locked(Work& work, const Status& reason, Finished& finished);
  void finish_front_locked(const Status& status, Finished& finished);
  static std::uint64_t size_of(const Work& work) {
    return work.own.size() + work.source.size + work.destination.size;
  }

  Adapter& adapter_;
  LaneMemory& memory_;
  const WorkPlace place_;
  const LaneLimits limits_;

  mutable std::mutex mutex_;
  ibv_qp* pair_ = nullptr;
  CompletionQueue::Place queue_place_;
  HelloMessage peer_;
  std::deque<Posted> under_way_;
  std::uint32_t next_number_ = 0;  // of the next work request; 31 bits
  std::uint32_t unsignalled_ = 0;
  std::vector<int> free_slots_;
  std::deque<Work> queue_;
  // What there is no credit for. A peer grants few at a time, so a burst waits here.
  Outbox<Work, std::size_t{1} << 18> outbox_;
  bool written_ = false;  // since the last flush
  std::size_t flushes_ = 0;
  std::uint32_t controls_ = 0;  // not with the adapter yet
  Status ended_;
  Status failure_;
  Cause cause_ = Cause::kNone;
  std::atomic<bool> failed_{false};
  SenderCounters counters_;
};

}  // namespace farwrite::fabric::verbs
