// ArrivalTable: where pushed tensors wait for their consumer, and consumers for their tensor.
//
// One table per process, because a push may arrive before its receiver knows the step: a fifth of
// them do. Their queues are named by the receiving server's incarnation, the step and the full
// rendezvous key; each keeps the order of arrival.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "base/backlog.h"
#include "core/mutex.h"
#include "memory/remote_bytes.h"
#include "tensor/push_message.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// A pushed tensor, not yet in the form its consumer wants. Owns the leases, if there are any.
struct ArrivedTensor {
  PushKind kind = PushKind::kTensor;
  bool dead = false;
  std::uint64_t sender = 0;          // server incarnation
  std::uint64_t start = 0;           // which start of the step at the sender
  const void* peer = nullptr;        // whose end drops it; compared only
  std::shared_ptr<Backlog> backlog;  // of that peer, if the bytes are this process' own memory
  tensorflow::Tensor tensor;         // if it is here: inline, landed, loopback, pulled, read
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape;
  std::uint64_t tensor_bytes = 0;
  bool is_proto = false;  // the bytes are a TensorProto:
  std::string proto;      // here,
  RemoteBytes lent;       // or, like those of any tensor, the peer's
  RemoteBytes receipt;    // whose return tells the sender that this was taken
  const char* way = "";   // how it came: "alias"
  std::int64_t sent = 0;  // see TransferLog::start()
  absl::Status failure;   // kCopyFailed
};

// Waits for one arrival.
class Waiter {
 public:
  virtual ~Waiter() = default;
  // At most once, under no lock, in the thread that brought the arrival (a poller, or the sending
  // kernel's in the same process) or in the one that calls ArrivalTable::wait(). It must not block.
  // If the waiter gives up in this moment, the arrival is dropped.
  virtual void deliver(ArrivedTensor arrival) = 0;
  // Maybe under a lock of the arrival table, so it only hands over.
  virtual void fail(const absl::Status& status) = 0;
  virtual bool given_up() const = 0;
  // It has waited for long: the sender that it waits for may not push. Under no lock.
  virtual void overdue() {}
};

struct StepId {
  std::uint64_t receiver = 0;  // server incarnation
  std::int64_t step = 0;
  bool operator==(const StepId& other) const {
    return receiver == other.receiver && step == other.step;
  }
};

struct StepIdHash {
  std::size_t operator()(const StepId& id) const {
    return std::hash<std::uint64_t>()(id.receiver ^
                                      (static_cast<std::uint64_t>(id.step) * 0x9e3779b97f4a7c15u));
  }
};

// The last steps that ended, or that one sender has ended: bounded, the oldest is forgotten first.
class Tombstones {
 public:
  // The sender has ended what it started of the step until `start`.
  void add(const StepId& step, std::uint64_t sender, std::uint64_t start);
  // The step is over for all callers, until it begins again.
  void add(const StepId& step) { add(step, kEverybody, UINT64_MAX); }
  void begins_again(const StepId& step);
  bool contains(const StepId& step, std::uint64_t sender, std::uint64_t start) const;

 private:
  static constexpr std::uint64_t kEverybody = 0;
  struct Stone {
    StepId step;
    std::uint64_t sender = 0;
    bool operator==(const Stone& other) const {
      return step == other.step && sender == other.sender;
    }
  };
  struct StoneHash {
    std::size_t operator()(const Stone& stone) const {
      return StepIdHash()(stone.step) ^ std::hash<std::uint64_t>()(stone.sender);
    }
  };
  struct EndedStep {
    std::uint64_t start = 0;
    std::list<Stone>::iterator stone;  // in oldest_first_
  };
  std::unordered_map<Stone, EndedStep, StoneHash> stones_;
  std::list<Stone> oldest_first_;
};

// Thread-safe.
class ArrivalTable {
 public:
  // Hands over to a waiter, or keeps the arrival until one comes or its step is gone.
  void deliver(const StepId& step, std::string_view key, ArrivedTensor arrival);
  // `peer` is whose failure ends the wait; compared only. So does that of `sender`, if it is not 0:
  // see sender_failed().
  void wait(const StepId& step, std::string_view key, std::shared_ptr<Waiter> waiter,
            const void* peer, std::uint64_t sender = 0);
  // Afterwards the table does not hold the waiter.
  void forget(const StepId& step, std::string_view key, const Waiter* waiter);

  // The sender has cleaned up what it started of the step until `start`: what it sent of that and
  // nothing took goes, and what still comes. A task that leaves the cluster and is added again
  // starts a step anew, by the same number.
  void sender_dropped(const StepId& step, std::uint64_t sender, std::uint64_t start);
  // The sender takes back what it pushed last under this key, if nothing has taken it.
  void withdraw(const StepId& step, std::string_view key, std::uint64_t sender);
  // The sender's part of the step has failed: ends every wait for it, and those that begin before
  // it pushes again, or `peer` ends.
  void sender_failed(const StepId& step, std::uint64_t sender, const absl::Status& status,
                     const void* peer, std::shared_ptr<Backlog> backlog);
  // Forgets who failed in the step: it begins anew.
  void forgive(const StepId& step);
  // The step begins on this side, maybe again: what comes is not dropped.
  void step_begins(const StepId& step);
  // It has ended: everything goes, and what still comes is dropped by a tombstone.
  void step_ended(const StepId& step);
  // Ends every wait for this peer, and drops what it sent.
  void peer_ended(const void* peer, const absl::Status& status);

  // Calls overdue() of those who have waited for one to two calls of this; then less and less
  // often.
  void remind();

  std::uint64_t waiting_tensors() const;

 private:
  struct QueuedWaiter {
    std::shared_ptr<Waiter> waiter;
    const void* peer = nullptr;
    std::uint64_t sender = 0;
    std::uint64_t since = 0;  // of reminders_
  };
  // What nothing has asked for yet.
  struct Unclaimed {
    ArrivedTensor arrival;
    Backlog::Share share;
  };
  struct KeyQueues {
    std::deque<Unclaimed> arrivals;
    std::deque<QueuedWaiter> waiters;
  };
  struct Failure {
    absl::Status status;
    const void* peer = nullptr;
    Backlog::Share share;
  };
  using StepQueues = std::unordered_map<std::string, KeyQueues>;
  struct ArrivalShard {
    mutable core::Mutex mutex{core::LockRank::kProgram, 2};
    std::unordered_map<StepId, StepQueues, StepIdHash> steps FW_GUARDED_BY(mutex);
    Tombstones tombstones FW_GUARDED_BY(mutex);
    std::unordered_map<StepId, std::unordered_map<std::uint64_t, Failure>, StepIdHash> failed
        FW_GUARDED_BY(mutex);
  };

  ArrivalShard& shard(const StepId& step) { return shards_[StepIdHash()(step) % shards_.size()]; }
  static void prune(ArrivalShard& shard, const StepId& step, StepQueues::iterator queues)
      FW_REQUIRES(shard.mutex);

  std::array<ArrivalShard, 16> shards_;
  std::atomic<std::uint64_t> reminders_{0};
};

}  // namespace farwrite::plugin
