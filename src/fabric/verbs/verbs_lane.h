// VerbsLane: one lane of a VerbsLink: a queue pair, what comes in on it, and its end.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/mutex.h"
#include "core/unique_fd.h"
#include "fabric/fabric.h"
#include "fabric/verbs/adapter.h"
#include "fabric/verbs/completion_queue.h"
#include "fabric/verbs/lane_memory.h"
#include "fabric/verbs/lane_sender.h"
#include "fabric/verbs/protocol.h"

namespace farwrite::fabric::verbs {

class VerbsLink;

// Thread-safe but for what says otherwise. Locks: the completion queue's, then the lane's own, then
// the sender's.
class VerbsLane final : public Lane, private QueueClient {
 public:
  VerbsLane(VerbsLink& link, std::uint32_t index, Adapter& adapter);
  ~VerbsLane() override;

  // The set-up, in this order, by one thread. `id` is this lane's from here on: a connection that
  // is not made yet.
  Status open(rdma_cm_id* id);
  // Once connected, for the greeting (lane_greeting.h).
  HelloMessage hello() const;
  Status send_setup(MessageType type, ByteView payload);
  // The peer's next message of those that cost no credit; nothing if none has come. An error if
  // none will.
  Result<std::optional<ControlMessage>> take_control();
  // The peer's hello has come: what is posted from here on goes out.
  Status begin(const HelloMessage& peer);

  Completion post(const Operation& operation) override;
  Progress poll(EventSink& sink) override;
  Doorbell arm() override;

  const rdma_cm_id* id() const { return id_; }
  const HelloMessage& peer() const { return peer_; }
  LaneSender& sender() { return *sender_; }

  // Ends the connection: when it returns, nothing of the peer lands and it reads nothing. What has
  // arrived is still handed over.
  void shut();
  // Of a lane that is shut: until all its receives have come back.
  void wait_for_flush(core::Deadline deadline);
  // Its device is of no use any more; the thread that polls tells all others.
  void fail(const Status& reason);
  // Ends everything: nothing is under way when it returns. Nothing polls or posts any more.
  void close(const Status& reason);

 private:
  // QueueClient.
  void on_work(const ibv_wc& completion, std::uint32_t number) override;
  void on_looked_at() override;

  void on_received_locked(const ibv_wc& completion, std::uint32_t buffer) FW_REQUIRES(mutex_);
  void on_message_locked(ByteView bytes) FW_REQUIRES(mutex_);
  void arrive_locked(Notification&& notification, bool is_record) FW_REQUIRES(mutex_);
  void break_locked(const Status& reason) FW_REQUIRES(mutex_);
  // Gives buffers back to the adapter, in one call.
  void post_receives_locked() FW_REQUIRES(mutex_);
  void tell_finished();
  void serve_control();
  void hand_over(EventSink& sink, Progress& progress);
  void look_for_end();
  WorkPlace place() const;

  VerbsLink& link_;
  const std::uint32_t index_;
  Adapter& adapter_;
  rdma_cm_id* id_ = nullptr;
  std::unique_ptr<LaneMemory> memory_;
  std::unique_ptr<LaneSender> sender_;
  CompletionQueue* queue_ = nullptr;
  CompletionQueue::QueueShare queue_share_;
  core::UniqueFd bell_;   // eventfd: another thread's look brought us something
  core::UniqueFd sleep_;  // epoll: the bell, and the completion queue's channel
  HelloMessage peer_;

  mutable core::Mutex mutex_{core::LockRank::kVerbs, 2};
  std::deque<ReceivedNotification> received_ FW_GUARDED_BY(mutex_);
  std::deque<ControlMessage> control_ FW_GUARDED_BY(mutex_);
  Finished finished_ FW_GUARDED_BY(mutex_);  // told by who polls this lane, with no lock held
  std::vector<std::uint32_t> free_receives_
      FW_GUARDED_BY(mutex_);                          // buffers that the adapter does not have
  std::uint32_t receives_ FW_GUARDED_BY(mutex_) = 0;  // that it has
  std::uint32_t unpaid_ FW_GUARDED_BY(mutex_) = 0;    // received, and the peer has no credit back
  bool end_seen_ FW_GUARDED_BY(mutex_) = false;
  Status broken_ FW_GUARDED_BY(mutex_);  // the peer broke a rule

  // Every receive has come back, or none will.
  bool nothing_comes_locked() const FW_REQUIRES(mutex_) {
    return receives_ == 0 || device_gone_.load();
  }

  // Held by the one thread that polls; guards what follows.
  std::atomic_flag polling_ = ATOMIC_FLAG_INIT;
  std::uint32_t owed_ = 0;  // credits to give back

  core::Mutex shut_mutex_{core::LockRank::kVerbs, 2};
  std::atomic<bool> over_{false};  // shut
  std::atomic<bool> device_gone_{false};
  std::atomic<bool> told_flushed_{false};
  std::atomic<bool> told_end_{false};
};

}  // namespace farwrite::fabric::verbs
