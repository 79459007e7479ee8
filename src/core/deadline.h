// Deadline: the moment after which nothing should wait any more.
//
// Taken on the monotonic clock, so that setting the wall clock neither ends a wait nor prolongs it.
// A value type; safe to copy between threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>

namespace farwrite::core {

// Nanoseconds on the clock of deadlines.
inline std::int64_t now_ns() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

class Deadline {
 public:
  // Expires `timeout` from now. Zero or negative: already expired. About 100 years or more: never.
  static Deadline after(std::chrono::nanoseconds timeout) {
    if (timeout >= kForever) return never();
    const Clock::time_point now = Clock::now();
    // A far negative timeout would wrap around the clock's origin and look like the future.
    return Deadline(now + std::max(timeout, std::chrono::nanoseconds::zero()));
  }
  static constexpr Deadline never() { return Deadline(Clock::time_point::max()); }

  bool is_never() const { return at_ == Clock::time_point::max(); }
  bool expired() const { return !is_never() && Clock::now() >= at_; }

  // Time left, never negative; nanoseconds::max() for never().
  std::chrono::nanoseconds remaining() const {
    if (is_never()) return std::chrono::nanoseconds::max();
    return std::max<std::chrono::nanoseconds>(at_ - Clock::now(), std::chrono::nanoseconds::zero());
  }

  // Time left, at most a second, for a condition variable: it adds this to its clock, which the
  // time left of never() would overflow. The caller loops until expired().
  std::chrono::nanoseconds turn() const {
    return std::min<std::chrono::nanoseconds>(remaining(), std::chrono::seconds(1));
  }

  // For poll(2) and epoll_wait(2): milliseconds rounded up, so that a wait never ends early and
  // then spins through the last fraction; -1 for never(). A longer wait than int holds is cut to
  // its maximum: the caller loops until expired() anyway.
  int poll_timeout_ms() const {
    if (is_never()) return -1;
    const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(remaining()).count();
    return static_cast<int>(std::min<std::int64_t>(milliseconds, std::numeric_limits<int>::max()));
  }

  // Whichever of the two expires first, or last.
  Deadline earlier(Deadline other) const { return Deadline(std::min(at_, other.at_)); }
  Deadline later(Deadline other) const { return Deadline(std::max(at_, other.at_)); }

 private:
  using Clock = std::chrono::steady_clock;

  static constexpr std::chrono::nanoseconds kForever = std::chrono::hours(24 * 365 * 100);

  explicit constexpr Deadline(Clock::time_point at) : at_(at) {}

  Clock::time_point at_;
};

}  // namespace farwrite::core
