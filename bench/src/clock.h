// What time it is, what a process has used of it, and the limit of a wait and of its polling.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstdint>

namespace farwrite::bench {

using Clock = std::chrono::steady_clock;

inline std::int64_t now_ns() { return Clock::now().time_since_epoch().count(); }

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// User and system time of all threads of this process.
inline double cpu_seconds() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// A point in time on the monotonic clock. A value type.
class Deadline {
 public:
  explicit Deadline(std::chrono::nanoseconds timeout) : at_(Clock::now() + timeout) {}
  bool expired() const { return Clock::now() >= at_; }

 private:
  Clock::time_point at_;
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
