// LaneSender: what one side posts on one lane's queue pair, in order.
//
// A work request goes to the adapter at once while the send queue has room; what finds none waits
// here and follows when completions come. What the peer has to take out (notifications, messages,
// records) costs a credit; without one it is held back, and the writes and reads behind it pass.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "core/completion_state.h"
#include "core/mutex.h"
#include "fabric/fabric.h"
#include "fabric/outbox.h"
#include "fabric/verbs/adapter.h"
#include "fabric/verbs/completion_queue.h"
#include "fabric/verbs/lane_memory.h"
#include "fabric/verbs/protocol.h"
#include "fabric/verbs/send_queue.h"

namespace farwrite::fabric::verbs {

// Thread-safe.
class LaneSender {
 public:
  LaneSender(Adapter& adapter, LaneMemory& memory, WorkPlace place);

  // The lane is connected: what follows goes out.
  void begin(ibv_qp* pair, const CompletionQueue::QueueShare& queue, const HelloMessage& peer);
  // Before that, for the proofs and hellos.
  Status send_setup(ibv_qp* pair, const CompletionQueue::QueueShare& queue, MessageType type,
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
  // Gives the adapter what there is room for.
  void pump(Finished& finished);

  // Whatever has not gone to the adapter ends with `reason`, now and later.
  void end(const Status& reason);
  // Nothing is under way any more, because the queue pair has gone.
  void settle(const Status& reason);
  // The queue pair works no more: failure() says why.
  bool failed() const FW_NO_THREAD_SAFETY_ANALYSIS { return requests_.failed(); }
  Status failure() const;
  SendQueue::Cause cause() const;
  SenderCounters& counters() FW_NO_THREAD_SAFETY_ANALYSIS { return requests_.counters(); }
  std::uint64_t backlogged() const FW_NO_THREAD_SAFETY_ANALYSIS { return outbox_.backlogged(); }

 private:
  Completion write(const Operation& operation);
  Completion read(const Operation& operation);
  Completion notify(MessageType type, const Operation& operation);
  Completion end_lane();
  Completion submit(Work&& work);
  bool post_all_locked(Work& work, Finished& finished) FW_REQUIRES(mutex_);
  // It is with the adapter, or given up.
  void leave_queue_locked(const Work& work) FW_REQUIRES(mutex_);
  static Weight weight_of(const Work& work);
  void release_held_locked() FW_REQUIRES(mutex_);
  bool is_dropped(const Work& work) const;
  Status revoked() const;
  bool give_up_locked(Work& work, const Status& reason, Finished& finished) FW_REQUIRES(mutex_);

  Adapter& adapter_;
  const WorkPlace place_;

  mutable core::Mutex mutex_{core::LockRank::kVerbs, 1};
  SendQueue requests_ FW_GUARDED_BY(mutex_);
  std::deque<Work> queue_ FW_GUARDED_BY(mutex_);  // what the send queue has no room for
  // What there is no credit for. A peer grants few at a time, so a burst waits here.
  Outbox<Work, std::size_t{1} << 18> outbox_ FW_GUARDED_BY(mutex_);
  HelloMessage peer_ FW_GUARDED_BY(mutex_);
  bool written_ FW_GUARDED_BY(mutex_) = false;               // since the last flush
  std::size_t queued_flushes_ FW_GUARDED_BY(mutex_) = 0;     // not with the adapter yet
  std::uint32_t queued_controls_ FW_GUARDED_BY(mutex_) = 0;  // the same
  Status ended_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::fabric::verbs
