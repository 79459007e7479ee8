// Interrupt: what a thread asks, while it waits, to learn whether it should go on.
//
// For languages whose signal handlers run in one thread and between two of its steps, like
// Python's: a wait there has to look around itself.
#pragma once

#include <chrono>

#include "core/deadline.h"
#include "core/mutex.h"

namespace farwrite::core {

// The calling thread's own.
class Interrupt {
 public:
  using Check = int (*)(void* context);

  // Null: nothing is asked.
  static void set(Check check, void* context) {
    check_ = check;
    context_ = context;
    raised_ = false;
  }
  // The check was not 0, so that this thread waits no more: for who would begin another wait.
  static bool raised() { return raised_; }

  // Waits on `changed`, with `mutex` held, until `ended()` says so; false if the deadline has
  // passed or the check is or was not 0. The check runs without the mutex.
  template <typename Ended>
  static bool wait(CondVar& changed, Mutex& mutex, Deadline deadline, Ended ended)
      FW_REQUIRES(mutex) FW_NO_THREAD_SAFETY_ANALYSIS {
    Deadline look = next_look();
    while (!ended()) {
      if (deadline.expired() || raised_) return false;
      changed.wait_for(mutex, deadline.earlier(look).turn());
      if (!look.expired()) continue;
      {
        const Unlock unlocked(mutex);
        if (check_(context_) != 0) raised_ = true;
      }
      look = next_look();
    }
    return true;
  }

 private:
  static Deadline next_look() {
    return check_ == nullptr ? Deadline::never() : Deadline::after(std::chrono::milliseconds(100));
  }

  static inline constinit thread_local Check check_ = nullptr;
  static inline constinit thread_local void* context_ = nullptr;
  static inline constinit thread_local bool raised_ = false;
};

}  // namespace farwrite::core
