// Blocking calls that Ctrl-C can end.
#pragma once

#include <nanobind/nanobind.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "core/steady_condition.h"
#include "farwrite/status.h"
#include "farwrite/timeout.h"
#include "python/errors.h"
#include "python/forks.h"
#include "python/gil.h"

namespace farwrite::python {

// How often a waiting thread looks for signals.
inline constexpr std::chrono::nanoseconds kSignalInterval = std::chrono::milliseconds(100);

// Seconds as Python says them; nothing means for ever. Raises InvalidArgument for a negative number
// or NaN, naming `what`.
std::chrono::nanoseconds to_timeout(std::optional<double> seconds, const char* what = "timeout");

// The same of any timeout that a program may give to `operation`. What is not None, a float or an
// int goes through farwrite.arguments.seconds(), which converts it, or says what is wrong.
std::chrono::nanoseconds to_timeout(nanobind::handle seconds, const char* operation);

// Python only runs signal handlers in its main thread.
bool in_main_thread();

// Runs pending signal handlers; what they raise (KeyboardInterrupt) goes to the caller.
inline void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

inline StatusCode code_of(const Status& status) { return status.code(); }
template <typename T>
StatusCode code_of(const Result<T>& result) {
  return result.status().code();
}

// Calls `attempt(timeout)` without the GIL. It may take the GIL before it ends, if it wants to have
// the GilRelease as well.
template <typename Attempt>
auto attempt_without_gil(Attempt& attempt, std::chrono::nanoseconds timeout) {
  GilRelease released;
  if constexpr (std::is_invocable_v<Attempt&, std::chrono::nanoseconds, GilRelease&>) {
    return attempt(timeout, released);
  } else {
    return attempt(timeout);
  }
}

// Calls `attempt` as attempt_without_gil() does, in slices, until it gives anything but
// kDeadlineExceeded or `timeout` has passed. For calls that lose nothing when they are repeated.
template <typename Attempt>
auto wait_in_slices(std::chrono::nanoseconds timeout, Attempt&& attempt) {
  using Clock = std::chrono::steady_clock;
  if (timeout <= kSignalInterval || !in_main_thread()) {
    return attempt_without_gil(attempt, timeout);
  }
  const Clock::time_point start = Clock::now();
  while (true) {
    const auto left = timeout == kForever ? kForever : timeout - (Clock::now() - start);
    auto outcome = attempt_without_gil(
        attempt, std::clamp(left, std::chrono::nanoseconds(0), kSignalInterval));
    const bool last = left <= kSignalInterval;
    if (last || code_of(outcome) != StatusCode::kDeadlineExceeded) return outcome;
    check_signals();
  }
}

// Runs the handlers of Python's signals while the main thread waits in a call. The first exception
// that a handler raises ends the wait. A handler may make such a call itself: watches nest.
class SignalWatch {
 public:
  SignalWatch();
  ~SignalWatch();
  SignalWatch(const SignalWatch&) = delete;
  SignalWatch& operator=(const SignalWatch&) = delete;

  // Runs `call` without the GIL. Raises what a handler raised, and then lets `drop` end what the
  // call returns.
  template <typename Call, typename Drop>
  auto run(Call&& call, Drop&& drop) {
    released_.emplace();
    std::optional outcome(call());
    if (raised_) {
      drop(*outcome);
      outcome.reset();  // which may take long
    }
    released_.reset();
    raise_if_raised();
    return *std::move(outcome);
  }

 private:
  static int look(void* watch);
  void raise_if_raised();

  SignalWatch* const outer_;
  bool raised_ = false;
  std::optional<nanobind::python_error> error_;
  std::optional<GilRelease> released_;  // goes first
};

// Runs `call` without the GIL. In the main thread a signal ends its waits for answers
// (fw_set_interrupt()), and what the call returns is dropped: `drop` may end it, without the GIL.
template <typename Call, typename Drop>
auto wait_watched(Call&& call, Drop&& drop) {
  if (!in_main_thread()) return without_gil(call);
  return SignalWatch().run(call, drop);
}
template <typename Call>
auto wait_watched(Call&& call) {
  return wait_watched(call, [](auto& /*outcome*/) {});
}

// A thread beside the main thread, which does one job after the other, and ends when none comes for
// a while. For the main thread alone.
class Beside {
 public:
  // Gives `job` to the last thread, if that is free, or to a new one. On an error nothing runs.
  static Result<std::shared_ptr<Beside>> run(std::function<void()> job);
  // The job has done all that its caller waits for.
  void set_free() { free_ = true; }

 private:
  bool take(std::function<void()>& job);
  void work();

  const ForkMark mark_;
  bool free_ = false;  // main thread only; one that does an abandoned job is not
  std::mutex mutex_;   // guards what follows
  core::SteadyCondition given_;
  std::function<void()> job_;
  bool ended_ = false;
};

// The same for calls that wait for more than answers: in the main thread the call runs in the
// thread beside it. An abandoned call goes on to its own deadline, and what it returns is dropped:
// `call` must own all it uses.
template <typename Call>
auto wait_beside(Call call) {
  using Outcome = std::invoke_result_t<Call>;
  if (!in_main_thread()) return without_gil(call);

  struct SharedOutcome {
    std::mutex mutex;  // guards what follows
    core::SteadyCondition ended;
    bool over = false;
    std::optional<Outcome> outcome;
    std::exception_ptr failure;  // the call had no memory, and threw
  };
  const auto shared = std::make_shared<SharedOutcome>();
  auto held = std::make_optional(std::move(call));
  const auto thread = value_or_raise(Beside::run([shared, held = std::move(held)]() mutable {
    std::optional<Outcome> outcome;
    std::exception_ptr failure;
    try {
      outcome.emplace((*held)());
    } catch (...) {
      failure = std::current_exception();
    }
    held.reset();  // what it has may take long to close, and the thread gets other calls after this
    {
      const std::lock_guard lock(shared->mutex);
      shared->outcome = std::move(outcome);
      shared->failure = std::move(failure);
      shared->over = true;
    }
    shared->ended.notify_one();
  }));
  while (true) {
    const bool ended = without_gil([&] {
      const std::lock_guard lock(shared->mutex);
      return shared->ended.wait_for(shared->mutex, kSignalInterval, [&] { return shared->over; });
    });
    if (ended) {
      thread->set_free();
      const std::lock_guard lock(shared->mutex);
      if (shared->failure != nullptr) std::rethrow_exception(shared->failure);
      // Of another standard library's exception there may be no pointer.
      if (!shared->outcome.has_value()) throw std::bad_alloc();
      return std::move(*shared->outcome);
    }
    check_signals();
  }
}

}  // namespace farwrite::python
