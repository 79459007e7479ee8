/// @file
/// Completion: the result of an asynchronous operation.
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

/// A timeout that never passes.
inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

/// The future of one operation. Copies share it. It is thread-safe and may outlive its channel.
/// Destroying every copy does not cancel the operation.
///
/// An ok outcome means, by operation: a write is `local_complete` (its source may be reused); a
/// read has filled its destination; a flush has made every earlier write `remote_visible`.
class FARWRITE_API Completion {
 public:
  /// An operation that ended inside the call that posted it. Takes no allocation and no lock.
  explicit Completion(Status status) : status_(std::move(status)) {}
  /// @private For the layers below.
  explicit Completion(std::shared_ptr<core::CompletionState> state) : state_(std::move(state)) {}

  /// True when the operation has ended or was cancelled.
  bool done() const;

  /// Blocks until the operation ends or `timeout` passes. kDeadlineExceeded ends only this wait:
  /// the operation may still be in flight, and the caller may wait again.
  Status wait(std::chrono::nanoseconds timeout = kForever) const;

  /// Ends every wait with kCancelled. A transfer in flight still runs to its end, and until then
  /// Farwrite keeps the memory that it owns pinned. Memory that the caller passed in must stay
  /// valid until settled().
  void cancel() const;

  /// True when no more bytes move for this operation. A cancelled operation settles later than it
  /// is done.
  bool settled() const;

  /// Calls `callback` once with the outcome: in this thread if the operation is done, else in the
  /// thread that ends the operation. The callback must not block.
  void on_done(std::function<void(const Status&)> callback) const;

  /// Calls `callback` once when the operation is settled: the caller may then reuse the memory that
  /// it passed in. Threads as for on_done().
  void on_settled(std::function<void(const Status&)> callback) const;

  /// @private For the layers below. Null for an operation that ended in the call that posted it.
  const std::shared_ptr<core::CompletionState>& state() const { return state_; }

 private:
  Status status_;
  std::shared_ptr<core::CompletionState> state_;  // null: done, the outcome is status_
};

}  // namespace farwrite
