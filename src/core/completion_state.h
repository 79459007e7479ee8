// CompletionState: the shared half of a Completion whose operation is still under way.
#pragma once

#include <chrono>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/fork_guard.h"
#include "core/mutex.h"
#include "farwrite/status.h"

namespace farwrite::core {

// Thread-safe. Callbacks run without the lock.
class CompletionState {
 public:
  // Before any thread waits: what errors call the operation, a literal, and its peer. Threads that
  // are Inside `ending` end it, so a wait() in one of them would never end. It fails at once
  // instead.
  void belongs_to(const void* ending, std::string_view operation, const std::string& peer);
  // The operation is over: nothing of it moves any more. The first outcome stays, so after a
  // cancel() this only settles. Calling it twice is harmless.
  void finish(Status status);
  // Ends the waiting with `reason`; the operation may go on, and settles by finish().
  void abandon(Status reason);

  // A line for the log, if a thread waits for this operation longer than a second. Call it before
  // others have the completion.
  void explain_long_waits(std::string line) FW_NO_THREAD_SAFETY_ANALYSIS {
    explanation_ = std::move(line);
  }

  // abandon(), on behalf of the caller.
  void cancel();

  bool done() const;
  bool settled() const;
  Status wait(std::chrono::nanoseconds timeout) const;
  void on_done(std::function<void(const Status&)> callback);
  void on_settled(std::function<void(const Status&)> callback);

 private:
  using Callbacks = std::vector<std::function<void(const Status&)>>;

  // Ends the waiting. The caller wakes who waits, and calls what comes back, without the lock.
  Callbacks decide(Status status) FW_REQUIRES(mutex_);
  void explain() const FW_REQUIRES(mutex_);
  ErrorContext where() const FW_REQUIRES(mutex_);
  // Once done. What ended the channel did not know the operation.
  Status outcome() const FW_REQUIRES(mutex_);
  void tell(const Callbacks& callbacks, const Status& ended) const;

  const ForkGuard fork_guard_;
  mutable Mutex mutex_{LockRank::kCore};
  mutable CondVar changed_;
  const void* ending_ FW_GUARDED_BY(mutex_) = nullptr;
  std::string_view operation_ FW_GUARDED_BY(mutex_);  // empty: not told
  std::string peer_ FW_GUARDED_BY(mutex_);
  bool done_ FW_GUARDED_BY(mutex_) = false;
  bool settled_ FW_GUARDED_BY(mutex_) = false;
  Status status_ FW_GUARDED_BY(mutex_);
  mutable std::string explanation_ FW_GUARDED_BY(mutex_);  // until it is logged
  mutable std::optional<std::chrono::steady_clock::time_point> explained_at_ FW_GUARDED_BY(mutex_);
  Callbacks callbacks_ FW_GUARDED_BY(mutex_);
  Callbacks settled_callbacks_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::core
