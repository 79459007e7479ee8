#include "core/completion.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "core/channel_end.h"
#include "core/completion_state.h"
#include "core/deadline.h"
#include "core/inside.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/long_wait.h"
#include "core/mutex.h"

namespace farwrite {
namespace core {

// In a forked child the thread that would end the operation is gone, and the mutex may be held for
// ever. So the operation counts as over there, with kForked.

void CompletionState::belongs_to(const void* ending, std::string_view operation,
                                 const std::string& peer) {
  const Lock lock(mutex_);
  ending_ = ending;
  operation_ = operation;
  peer_ = peer;
}

ErrorContext CompletionState::where() const {
  return {.operation = operation_.empty() ? "wait" : operation_, .peer = peer_};
}

Status CompletionState::outcome() const { return end_of(operation_, status_); }

void CompletionState::finish(Status status) {
  if (fork_guard_.in_forked_child()) return;
  Callbacks callbacks;
  Callbacks settled_callbacks;
  Status ended;
  {
    const Lock lock(mutex_);
    settled_ = true;
    if (!done_) callbacks = decide(std::move(status));
    settled_callbacks = std::exchange(settled_callbacks_, {});
    ended = outcome();
  }
  tell(callbacks, ended);
  for (const auto& callback : settled_callbacks) callback(ended);
}

void CompletionState::abandon(Status reason) {
  if (fork_guard_.in_forked_child()) return;
  Callbacks callbacks;
  Status ended;
  {
    const Lock lock(mutex_);
    if (done_) return;
    callbacks = decide(std::move(reason));
    ended = outcome();
  }
  tell(callbacks, ended);
}

CompletionState::Callbacks CompletionState::decide(Status status) {
  done_ = true;
  status_ = std::move(status);
  return std::exchange(callbacks_, {});
}

void CompletionState::tell(const Callbacks& callbacks, const Status& ended) const {
  changed_.notify_all();
  for (const auto& callback : callbacks) callback(ended);
}

void CompletionState::cancel() {
  if (fork_guard_.in_forked_child()) return;
  Callbacks callbacks;
  Status ended;
  {
    const Lock lock(mutex_);
    if (done_) return;
    callbacks = decide(Status::error(StatusCode::kCancelled, where(), "cancelled by the caller",
                                     "post the operation again if it is still wanted"));
    ended = outcome();
  }
  tell(callbacks, ended);
}

bool CompletionState::done() const {
  if (fork_guard_.in_forked_child()) return true;
  const Lock lock(mutex_);
  return done_;
}

bool CompletionState::settled() const {
  if (fork_guard_.in_forked_child()) return true;
  const Lock lock(mutex_);
  return settled_;
}

Status CompletionState::wait(std::chrono::nanoseconds timeout) const {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("wait for an operation"));
  const Deadline deadline = Deadline::after(timeout);
  const auto ended = [this]() FW_REQUIRES(mutex_) { return done_; };
  Lock lock(mutex_);
  while (!done_) {
    if (!explanation_.empty()) {
      explain();
      const Deadline slice = deadline.earlier(Deadline::after(kLongWait / 10));
      (void)Interrupt::wait(changed_, mutex_, slice, ended);
      if (done_ || (!deadline.expired() && !Interrupt::raised())) continue;
    }
    if (!deadline.expired() && ending_ != nullptr && Inside::is(ending_)) {
      return Status::error(
          StatusCode::kFailedPrecondition, where(),
          "this thread runs a callback, and would have to end the operation itself",
          "wait in another thread, or give on_done() a callback");
    }
    if (!Interrupt::wait(changed_, mutex_, deadline, ended)) {
      return Status::error(StatusCode::kDeadlineExceeded, where(),
                           "the operation is still under way at the deadline",
                           "wait again, or cancel() to stop waiting");
    }
  }
  return outcome();
}

// Waits may come in slices, so the second counts from the first of them.
void CompletionState::explain() const {
  const auto now = std::chrono::steady_clock::now();
  if (!explained_at_.has_value()) explained_at_ = now + kLongWait;
  if (now >= *explained_at_) log(LogLevel::kWarning, std::exchange(explanation_, {}));
}

void CompletionState::on_done(std::function<void(const Status&)> callback) {
  if (fork_guard_.in_forked_child()) return callback(fork_guard_.check("wait for an operation"));
  Status ended;
  {
    const Lock lock(mutex_);
    if (!done_) {
      callbacks_.push_back(std::move(callback));
      return;
    }
    ended = outcome();
  }
  callback(ended);
}

void CompletionState::on_settled(std::function<void(const Status&)> callback) {
  if (fork_guard_.in_forked_child()) return callback(fork_guard_.check("wait for an operation"));
  Status ended;
  {
    const Lock lock(mutex_);
    if (!settled_) {
      settled_callbacks_.push_back(std::move(callback));
      return;
    }
    ended = outcome();
  }
  callback(ended);
}

}  // namespace core

bool Completion::pending_done() const { return state_->done(); }

Status Completion::wait_pending(std::chrono::nanoseconds timeout) const {
  return state_->wait(timeout);
}

void Completion::cancel() const {
  if (state_ != nullptr) state_->cancel();
}

bool Completion::settled() const { return state_ == nullptr || state_->settled(); }

void Completion::on_done(std::function<void(const Status&)> callback) const {
  if (state_ == nullptr) {
    callback(status_);
  } else {
    state_->on_done(std::move(callback));
  }
}

void Completion::on_settled(std::function<void(const Status&)> callback) const {
  if (state_ == nullptr) {
    callback(status_);
  } else {
    state_->on_settled(std::move(callback));
  }
}

}  // namespace farwrite
