// CompletionQueue: where the lanes of many peers get the completions of their work requests.
//
// A device has one for each poller. The thread that polls one of its lanes takes what there is for
// all of them: work for the asked lane comes back to the caller's thread, the others' threads are
// rung. An adapter's queue holds a fixed number of entries, so there may be several behind one
// channel.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/completion_state.h"
#include "core/mutex.h"
#include "fabric/verbs/registration_cache.h"
#include "fabric/verbs/verbs_library.h"
#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

// Where a work request ran.
struct WorkPlace {
  std::string peer;    // "10.9.0.2:7777"
  std::string device;  // "rxe0"
  std::uint32_t lane = 0;
};

// `operation` as a user knows it: "write", "read", "flush". Success gives Ok. The sentence names
// operation, peer, device, ibv_wc_status_str, the vendor error and a remedy.
Status status_of(VerbsLibrary& library, const ibv_wc& completion, std::string_view operation,
                 const WorkPlace& place);

// Whether the status says that the peer or the way to it is gone (retries used up, flushed), and
// not that something broke a rule (a bad key, a bad length).
bool means_peer_gone(ibv_wc_status status);

// An operation that ended, to be told once no lock is held, and memory that it held registered.
struct EndedOperation {
  std::shared_ptr<core::CompletionState> completion;  // may be null
  Status status;
  std::shared_ptr<Registration> registration = nullptr;
};
using Finished = std::vector<EndedOperation>;

// Memory first: who is told may give it back to the system, and a registration that outlived it
// would be found under the address of other pages.
inline void tell(Finished&& finished) {
  for (EndedOperation& one : finished) one.registration.reset();
  for (EndedOperation& one : finished) {
    if (one.completion != nullptr) one.completion->finish(std::move(one.status));
  }
}

// One lane, as its completion queue sees it. Called under the queue's lock.
class QueueClient {
 public:
  virtual ~QueueClient() = default;
  // Work of the lane is over; `number` is what its wr_id said.
  virtual void on_work(const ibv_wc& completion, std::uint32_t number) = 0;
  // A look at the queue is over that brought this lane something.
  virtual void on_looked_at() = 0;
};

// Thread-safe. Locks: the queue's, then a lane's; never the other way round.
class CompletionQueue {
 public:
  static Result<std::unique_ptr<CompletionQueue>> create(VerbsLibrary& library,
                                                         ibv_context* context, int max_entries);
  ~CompletionQueue();
  CompletionQueue(const CompletionQueue&) = delete;
  CompletionQueue& operator=(const CompletionQueue&) = delete;

  struct QueueShare {
    ibv_cq* queue = nullptr;
    std::uint32_t client = 0;  // in the high half of a wr_id
    std::uint32_t entries = 0;
  };
  // Room for `entries` work requests under way at once. Until remove() the client is called.
  Result<QueueShare> add(QueueClient& client, std::uint32_t entries);
  // When it returns the client is not called and never is again.
  void remove(const QueueShare& share);

  static std::uint64_t work_id(const QueueShare& share, std::uint32_t number) {
    return std::uint64_t{share.client} << 32 | number;
  }

  // Takes everything there is and hands it to its lanes. Waits for another thread that does.
  void look();
  // The same, unless another thread does.
  void try_look();
  // Announces a sleeper on fd(). Look again afterwards, before sleeping.
  void arm();
  // Readable when an armed queue has news.
  int fd() const { return channel_->fd; }

 private:
  struct Queue {
    ibv_cq* queue = nullptr;
    std::uint32_t used = 0;  // entries given to lanes
  };

  CompletionQueue(VerbsLibrary& library, ibv_context* context, int max_entries)
      : library_(library), context_(context), max_entries_(max_entries) {}
  void look_locked() FW_REQUIRES(mutex_);

  VerbsLibrary& library_;
  ibv_context* const context_;
  const int max_entries_;
  ibv_comp_channel* channel_ = nullptr;
  core::Mutex mutex_{core::LockRank::kVerbs, 3};
  std::vector<Queue> queues_ FW_GUARDED_BY(mutex_);
  std::unordered_map<std::uint32_t, QueueClient*> clients_ FW_GUARDED_BY(mutex_);
  std::uint32_t next_client_ FW_GUARDED_BY(mutex_) = 1;
  bool unreadable_ FW_GUARDED_BY(mutex_) = false;  // and logged
};

}  // namespace farwrite::fabric::verbs
