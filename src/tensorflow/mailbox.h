// Mailbox: where pushed tensors wait for their consumer, and consumers for their tensor.
//
// One mailbox a process, because a push may arrive before its receiver knows the step: a fifth of
// them do. A place is named by the receiving server's incarnation, the step and the full rendezvous
// key, whose arrivals queue in order.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "push_message.h"
#include "status_bridge.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// A pushed tensor, not yet in the form its consumer wants. Owns the lease, if there is one.
struct Arrival {
  PushKind kind = PushKind::kInline;
  bool dead = false;
  std::uint64_t sender = 0;    // server incarnation
  const void* peer = nullptr;  // whose end drops it; compared only
  tensorflow::Tensor tensor;   // inline, loopback
  tensorflow::DataType dtype = tensorflow::DT_INVALID;
  tensorflow::TensorShape shape;
  std::uint64_t tensor_bytes = 0;
  std::string serialized;       // kSerialized
  View lent;                    // kAlias, kSerializedLent
  std::uint32_t read_lane = 0;  // for fetching what is lent
};

// Somebody who waits for one arrival. Called under a lock of the mailbox: it only hands over.
class Waiter {
 public:
  virtual ~Waiter() = default;
  // At most once. If the waiter gives up in this moment, the arrival is dropped.
  virtual void deliver(Arrival arrival) = 0;
  virtual void fail(const absl::Status& status) = 0;
  virtual bool given_up() const = 0;
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
  // Sender 0: the step is over for everybody.
  void add(const StepId& step, std::uint64_t sender);
  bool contains(const StepId& step, std::uint64_t sender) const;

 private:
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
  std::unordered_set<Stone, StoneHash> stones_;
  std::deque<Stone> oldest_first_;
};

// Thread-safe.
class Mailbox {
 public:
  // Hands over to a waiter, or keeps the arrival until one comes or its step is gone.
  void deliver(const StepId& step, std::string_view key, Arrival arrival);
  // `peer` is whose failure ends the wait; compared only. So does that of `sender`, if it is not 0:
  // see sender_failed().
  void wait(const StepId& step, std::string_view key, std::shared_ptr<Waiter> waiter,
            const void* peer, std::uint64_t sender = 0);
  // After it, the mailbox does not know the waiter.
  void forget(const StepId& step, std::string_view key, const Waiter* waiter);

  // The sender has cleaned the step up: what it sent and nobody took goes, and what still comes.
  void sender_dropped(const StepId& step, std::uint64_t sender);
  // The sender takes back what it pushed last to this place, if nobody has taken it.
  void withdraw(const StepId& step, std::string_view key, std::uint64_t sender);
  // The sender's part of the step has failed: ends every wait for it, and those that begin before
  // it pushes again.
  void sender_failed(const StepId& step, std::uint64_t sender, const absl::Status& status);
  // Forgets who failed in the step: it begins anew.
  void forgive(const StepId& step);
  // This side has: everything goes, and what still comes is dropped by a tombstone.
  void step_ended(const StepId& step);
  // Ends every wait for this peer, and drops what it sent.
  void peer_ended(const void* peer, const absl::Status& status);

  std::uint64_t waiting_tensors() const;

 private:
  struct Waiting {
    std::shared_ptr<Waiter> waiter;
    const void* peer = nullptr;
    std::uint64_t sender = 0;
  };
  struct Place {
    std::deque<Arrival> arrivals;
    std::deque<Waiting> waiters;
  };
  using Places = std::unordered_map<std::string, Place>;
  struct Shard {
    mutable std::mutex mutex;
    std::unordered_map<StepId, Places, StepIdHash> steps;
    Tombstones tombstones;
    std::unordered_map<StepId, std::unordered_map<std::uint64_t, absl::Status>, StepIdHash> failed;
  };

  Shard& shard(const StepId& step) { return shards_[StepIdHash()(step) % shards_.size()]; }
  static void prune(Shard& shard, const StepId& step, Places::iterator place);

  std::array<Shard, 16> shards_;
};

}  // namespace farwrite::plugin
