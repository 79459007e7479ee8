/// @file
/// Completion: the result of an asynchronous operation.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <utility>

#include "farwrite/c_completion.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/status.h"
#include "farwrite/timeout.h"

FARWRITE_BEGIN

namespace internal {

/// @private A callback that is called once.
using Done = std::function<void(const Status&)>;

/// @private A fw_done: calls what the context holds, and frees it.
inline void call_done(void* context, const fw_status* status) noexcept {
  const std::unique_ptr<Done> done(static_cast<Done*>(context));
  (*done)(copy_of(status));
}

}  // namespace internal

/// The future of one operation. Copies share it. It is thread-safe and may outlive its channel.
/// Destroying every copy does not cancel the operation.
///
/// An ok outcome means, by operation: a write is `local_complete` (its source may be reused); a
/// read has filled its destination; a flush has made every earlier write `remote_visible`.
class Completion {
 public:
  /// An operation that ended inside the call that posted it. Takes no allocation and no lock.
  explicit Completion(Status status) : status_(std::move(status)) {}
  /// @private What a call of the C ABI that posts an operation returned and handed out.
  static Completion adopt(fw_status* status, fw_completion* posted) {
    if (status != nullptr) return Completion(internal::taken(status));
    if (posted == nullptr) return Completion(Status());
    return Completion(internal::owned(posted, fw_completion_free));
  }
  /// @private Null for an operation that ended in the call that posted it.
  const std::shared_ptr<fw_completion>& handle() const { return handle_; }

  /// True when the operation has ended or was cancelled.
  bool done() const { return handle_ == nullptr || fw_completion_done(handle_.get()) != 0; }

  /// Blocks until the operation ends or `timeout` passes. kDeadlineExceeded ends only this wait:
  /// the operation may still be in flight, and the caller may wait again.
  Status wait(std::chrono::nanoseconds timeout = kForever) const {
    if (handle_ == nullptr) return status_;
    return internal::taken(fw_completion_wait(handle_.get(), internal::to_ns(timeout)));
  }

  /// Ends every wait with kCancelled. A transfer in flight still runs to its end, and until then
  /// Farwrite keeps the memory that it owns pinned. Memory that the caller passed in must stay
  /// valid until settled().
  void cancel() const { fw_completion_cancel(handle_.get()); }

  /// True when no more bytes move for this operation. A cancelled operation settles later than it
  /// is done.
  bool settled() const { return handle_ == nullptr || fw_completion_settled(handle_.get()) != 0; }

  /// Calls `callback` once with the outcome: in this thread if the operation is done, else in the
  /// thread that ends the operation. The callback must not block.
  void on_done(std::function<void(const Status&)> callback) const {
    tell(fw_completion_on_done, std::move(callback));
  }

  /// Calls `callback` once when the operation is settled: the caller may then reuse the memory that
  /// it passed in. Threads as for on_done().
  void on_settled(std::function<void(const Status&)> callback) const {
    tell(fw_completion_on_settled, std::move(callback));
  }

 private:
  explicit Completion(std::shared_ptr<fw_completion> handle) : handle_(std::move(handle)) {}

  void tell(fw_status* (*when)(fw_completion*, fw_done, void*), internal::Done callback) const {
    if (!callback) return;
    if (handle_ == nullptr) return callback(status_);
    // Fails for a NULL callback alone.
    fw_status_free(
        when(handle_.get(), internal::call_done, new internal::Done(std::move(callback))));
  }

  Status status_;
  std::shared_ptr<fw_completion> handle_;  // null: the outcome is status_
};

FARWRITE_END
