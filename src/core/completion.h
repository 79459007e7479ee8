// Completion of the library: what it does is written in farwrite/completion.h.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "farwrite/status.h"
#include "farwrite/timeout.h"

namespace farwrite {

namespace core {
class CompletionState;
}

class Completion {
 public:
  explicit Completion(Status status) : status_(std::move(status)) {}
  explicit Completion(std::shared_ptr<core::CompletionState> state) : state_(std::move(state)) {}

  bool done() const { return state_ == nullptr || pending_done(); }

  Status wait(std::chrono::nanoseconds timeout = kForever) const {
    return state_ == nullptr ? status_ : wait_pending(timeout);
  }

  void cancel() const;

  bool settled() const;

  void on_done(std::function<void(const Status&)> callback) const;

  void on_settled(std::function<void(const Status&)> callback) const;

  const std::shared_ptr<core::CompletionState>& state() const { return state_; }
  // The outcome of an operation that ended in the call that posted it; null for any other.
  const Status* ended() const { return state_ == nullptr ? &status_ : nullptr; }

 private:
  // Of an operation that was pending when the call returned that posted it.
  bool pending_done() const;
  Status wait_pending(std::chrono::nanoseconds timeout) const;

  Status status_;
  std::shared_ptr<core::CompletionState> state_;  // null: done, the outcome is status_
};

}  // namespace farwrite
