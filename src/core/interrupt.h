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

  // Null: nothing is asked. What the check itself sets holds until it returns.
  static void set(Check check, void* context, std::chrono::nanoseconds every = kLooksEvery) {
    check_ = check;
    context_ = context;
    every_ = every;
    raised_ = false;
    next_look_ = check == nullptr ? Deadline::never() : Deadline::after(every);
  }
  // The check was not 0, so that this thread waits no more: for who would begin another wait.
  static bool raised() { return raised_; }

  // While it lives, the thread also asks `check`, besides what it asked before.
  class Also {
   public:
    Also(Check check, void* context, std::chrono::nanoseconds every)
        : check_(check), context_(context) {
      set(&look, this, every);
      Interrupt::raised_ = outer_raised_;
    }
    ~Also() {
      set(outer_, outer_context_, outer_every_);
      Interrupt::raised_ = outer_raised_;
    }
    Also(const Also&) = delete;
    Also& operator=(const Also&) = delete;

   private:
    static int look(void* context) {
      Also& self = *static_cast<Also*>(context);
      if (self.check_(self.context_) != 0) return 1;
      self.outer_raised_ = self.outer_ != nullptr && self.outer_(self.outer_context_) != 0;
      return self.outer_raised_ ? 1 : 0;
    }

    const Check check_;
    void* const context_;
    const Check outer_ = Interrupt::check_;
    void* const outer_context_ = Interrupt::context_;
    const std::chrono::nanoseconds outer_every_ = Interrupt::every_;
    bool outer_raised_ = Interrupt::raised_;
  };

  // For waits on anything else, in turns that end at turn(): asks when it is time, and says whether
  // this thread waits no more.
  static bool ends_wait() {
    if (!raised_ && next_look_.expired()) look();
    return raised_;
  }
  static Deadline turn() { return raised_ ? Deadline::after({}) : next_look_; }

  // Waits on `changed`, with `mutex` held, until `ended()` says so; false if the deadline has
  // passed or the check is or was not 0. The check runs without the mutex.
  template <typename Ended>
  static bool wait(CondVar& changed, Mutex& mutex, Deadline deadline, Ended ended)
      FW_REQUIRES(mutex) FW_NO_THREAD_SAFETY_ANALYSIS {
    while (!ended()) {
      if (raised_) return false;
      if (next_look_.expired()) {
        const Unlock unlocked(mutex);
        look();
      } else if (deadline.expired()) {
        return false;
      } else {
        changed.wait_for(mutex, deadline.earlier(next_look_).turn());
      }
    }
    return true;
  }

 private:
  static constexpr std::chrono::milliseconds kLooksEvery{100};

  // What the check calls asks nothing: it would run inside of itself.
  static void look() {
    const Check check = check_;
    void* const context = context_;
    const std::chrono::nanoseconds every = every_;
    set(nullptr, nullptr);
    const bool over = check(context) != 0;
    set(check, context, every);
    raised_ = over;
  }

  static inline constinit thread_local Check check_ = nullptr;
  static inline constinit thread_local void* context_ = nullptr;
  static inline constinit thread_local std::chrono::nanoseconds every_ = kLooksEvery;
  static inline constinit thread_local bool raised_ = false;
  // Of all waits together: many of them are shorter than the time between two looks.
  static inline constinit thread_local Deadline next_look_ = Deadline::never();
};

}  // namespace farwrite::core
