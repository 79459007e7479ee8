// CompletionState: the shared half of a Completion whose operation is still under way.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/fork_guard.h"
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
  void explain_long_waits(std::string line) { explanation_ = std::move(line); }

  // abandon(), on behalf of the caller.
  void cancel();

  bool done() const;
  bool settled() const;
  Status wait(std::chrono::nanoseconds timeout) const;
  void on_done(std::function<void(const Status&)> callback);
  void on_settled(std::function<void(const Status&)> callback);

 private:
  Status decide(std::unique_lock<std::mutex> lock, Status status);
  void explain() const;
  ErrorContext where() const;
  Status outcome() const;

  const ForkGuard fork_guard_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  const void* ending_ = nullptr;
  std::string_view operation_;  // empty: not told
  std::string peer_;
  bool done_ = false;
  bool settled_ = false;
  Status status_;
  mutable std::string explanation_;  // until it is logged
  mutable std::optional<std::chrono::steady_clock::time_point> explained_at_;
  std::vector<std::function<void(const Status&)>> callbacks_;
  std::vector<std::function<void(const Status&)>> settled_callbacks_;
};

}  // namespace farwrite::core
