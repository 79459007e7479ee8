// PeerTimes: when the peer of a channel last sent something, and what falls due after its end.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/deadline.h"

namespace farwrite::device {

// Thread-safe, without a mutex.
class PeerTimes {
 public:
  void received() { received_ns_.store(core::now_ns(), std::memory_order_relaxed); }
  // How long nothing has come, at `now`. `absence` is time that this process was away, which is not
  // the peer's silence. On the control loop, like received().
  std::chrono::nanoseconds silence(std::chrono::nanoseconds now, std::chrono::nanoseconds absence) {
    received_ns_.store(std::min(now.count(), received_ns_.load() + absence.count()));
    return std::chrono::nanoseconds(now.count() - received_ns_.load());
  }

  // The lanes of a refused peer are ended after this.
  void cut_after(std::chrono::nanoseconds time) { cut_due_ns_.store(due_after(time)); }
  // Once.
  bool take_due_cut() { return is_due(cut_due_ns_) && cut_due_ns_.exchange(0) != 0; }

  // What is still pending ends after this, because the peer closed normally.
  void abandon_after(std::chrono::nanoseconds time) { abandon_due_ns_.store(due_after(time)); }
  bool abandon_is_due() const { return is_due(abandon_due_ns_); }

 private:
  static std::int64_t due_after(std::chrono::nanoseconds time) {
    return core::now_ns() + time.count();
  }
  static bool is_due(const std::atomic<std::int64_t>& due_ns) {
    const std::int64_t due = due_ns.load();
    return due != 0 && core::now_ns() >= due;
  }

  std::atomic<std::int64_t> received_ns_{0};
  std::atomic<std::int64_t> cut_due_ns_{0};      // 0 is never
  std::atomic<std::int64_t> abandon_due_ns_{0};  // 0 is never
};

}  // namespace farwrite::device
