// cpu_relax and SpinBudget: how to poll for a little while before blocking.
#pragma once

#include <chrono>

#include "core/deadline.h"

namespace farwrite::core {

// Tells the CPU that this is a spin loop: saves power, and leaves a hyper-thread sibling the core.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#else
  asm volatile("" ::: "memory");
#endif
}

// Limits one stretch of polling. Made right before the loop, since the time runs from then on:
//   for (SpinBudget budget(options.spin); !ready() && budget.spin();) {}
// Thread-compatible.
class SpinBudget {
 public:
  // Zero or negative: spin() fails at once.
  explicit SpinBudget(std::chrono::nanoseconds budget) : end_(Deadline::after(budget)) {}

  // Relaxes the CPU and returns true; false, for good, once the budget is spent. Reads the clock
  // only every kTurnsPerClockRead turns, because a clock read costs as much as many polls.
  bool spin() {
    if (turn_ == 0) spent_ = spent_ || end_.expired();
    if (spent_) return false;
    turn_ = (turn_ + 1) % kTurnsPerClockRead;
    cpu_relax();
    return true;
  }

 private:
  static constexpr unsigned kTurnsPerClockRead = 32;

  Deadline end_;
  unsigned turn_ = 0;
  bool spent_ = false;
};

}  // namespace farwrite::core
