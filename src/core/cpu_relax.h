// cpu_relax and SpinBudget: how to poll for a little while before blocking.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <utility>

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
//
// Now and then it offers the processor to other threads: the one that is waited for may be waiting
// for this very processor. A thread that gets it back late twice in a short time shares it with
// one that computes. Then it does not poll for a while: who sleeps is woken before such a thread
// has used up its time, and who offers the processor is not. Thread-compatible.
class SpinBudget {
 public:
  // Zero or negative: spin() fails at once.
  explicit SpinBudget(std::chrono::nanoseconds budget) : end_ns_(now_ns()) {
    offer_at_ns_ = end_ns_ + kFirstOffer.count();
    if (end_ns_ < crowded_until_ns_) return;
    const std::int64_t most = std::numeric_limits<std::int64_t>::max() - end_ns_;
    end_ns_ += std::clamp<std::int64_t>(budget.count(), 0, most);
  }

  // Relaxes the processor and returns true; false, for good, once the budget is spent.
  bool spin() {
    // A look at the clock takes as long as many polls.
    if (turn_++ < next_look_) {
      cpu_relax();
      return true;
    }
    const std::int64_t now = now_ns();
    if (now >= end_ns_) return false;
    if (now < offer_at_ns_) {
      next_look_ = 2 * turn_;
      cpu_relax();
      return true;
    }
    return offer(now);
  }

 private:
  // What another processor's thread writes has often come by then.
  static constexpr std::chrono::nanoseconds kFirstOffer = std::chrono::microseconds(1);
  static constexpr std::chrono::nanoseconds kBetweenOffers = std::chrono::microseconds(4);
  // A peer has answered by then. A thread that computes keeps the processor for milliseconds.
  static constexpr std::chrono::nanoseconds kLate = std::chrono::milliseconds(1);
  static constexpr std::chrono::nanoseconds kCrowded = std::chrono::milliseconds(100);

  bool offer(std::int64_t now) {
    ::sched_yield();
    const std::int64_t back = now_ns();
    offer_at_ns_ = back + kBetweenOffers.count();
    turn_ = next_look_ = 0;
    if (back - now < kLate.count()) return true;
    // Once it may have been the hypervisor.
    if (back - std::exchange(late_at_ns_, back) > kCrowded.count()) return true;
    crowded_until_ns_ = back + kCrowded.count();
    end_ns_ = back;
    return false;
  }

  std::int64_t end_ns_;
  std::int64_t offer_at_ns_ = 0;
  std::uint64_t turn_ = 0;
  std::uint64_t next_look_ = 0;
  static inline constinit thread_local std::int64_t late_at_ns_ = 0;
  static inline constinit thread_local std::int64_t crowded_until_ns_ = 0;
};

}  // namespace farwrite::core
