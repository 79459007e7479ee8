// Completion: what an asynchronous operation hands back.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "farwrite/export.h"
#include "farwrite/status.h"

namespace farwrite {

namespace core {
class CompletionState;
}

inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

// The future of one operation. Copies share it; thread-safe; may outlive its channel. Dropping it
// abandons nothing: the operation goes on.
//
// What it means when it is ok depends on the operation: a write is `local_complete` (its source may
// be reused), a read has filled its destination, a flush made every earlier write
// `remote_visible`.
class FARWRITE_API Completion {
 public:
  // An operation that ended inside the call that posted it: no allocation, no lock.
  explicit Completion(Status status) : status_(std::move(status)) {}
  explicit Completion(std::shared_ptr<core::CompletionState> state) : state_(std::move(state)) {}

  bool done() const;

  // Blocks until the operation ends or `timeout` passes. kDeadlineExceeded ends the waiting only:
  // the operation may still be under way and may be waited for again.
  Status wait(std::chrono::nanoseconds timeout = kForever) const;

  // Ends the waiting of everybody with kCancelled. A transfer already under way still runs to its
  // end, and Farwrite keeps the memory it owns pinned until then; memory that the caller passed in
  // must stay valid until settled().
  void cancel() const;

  // True once no byte moves any more for this operation, also after cancel().
  bool settled() const;

  // Calls `callback` once with the outcome: at once in this thread if done, else in the thread that
  // ends the operation. It must not block.
  void on_done(std::function<void(const Status&)> callback) const;

  // The same once it is settled: memory that was passed in is the caller's again.
  void on_settled(std::function<void(const Status&)> callback) const;

  // For the layers below; null for an operation that ended in the call that posted it.
  const std::shared_ptr<core::CompletionState>& state() const { return state_; }

 private:
  Status status_;
  std::shared_ptr<core::CompletionState> state_;  // null: done, the outcome is status_
};

}  // namespace farwrite
