// Deadline and SpinBudget: the time limit of a wait in the benchmark, and the polling until then.
#pragma once

#include <chrono>

namespace farwrite::bench {

// A point in time on the monotonic clock. A value type.
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds timeout)
      : at_(std::chrono::steady_clock::now() + timeout) {}
  bool expired() const { return std::chrono::steady_clock::now() >= at_; }

 private:
  std::chrono::steady_clock::time_point at_;
};

// Tells the processor that this is a spin loop. This saves power and leaves the core to the other
// hyper-thread.
inline void cpu_relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield" ::: "memory");
#else
  asm volatile("" ::: "memory");
#endif
}

// Limits the time of polling: for (SpinBudget budget(timeout); !ready() && budget.spin();) {}
// Thread-compatible.
class SpinBudget {
 public:
  explicit SpinBudget(std::chrono::nanoseconds budget) : end_(budget) {}

  // Relaxes the processor and returns true; returns false once the budget is spent. Reads the clock
  // every kTurnsPerClockRead turns, because a clock read costs as much as many polls.
  bool spin() {
    if (turn_ == 0 && end_.expired()) return false;
    turn_ = (turn_ + 1) % kTurnsPerClockRead;
    cpu_relax();
    return true;
  }

 private:
  static constexpr unsigned kTurnsPerClockRead = 32;

  Deadline end_;
  unsigned turn_ = 0;
};

}  // namespace farwrite::bench
