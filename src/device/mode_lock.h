// ModeLock: shared by deliveries, and exclusive for a thread that changes where they go.
#pragma once

#include <atomic>
#include <cstdint>

#include "core/deadline.h"
#include "core/mutex.h"
#include "core/poll_until.h"

namespace farwrite::device {

// A delivery pays one atomic addition each way, where a shared mutex of the library pays two calls:
// it is on the way of every notification. A change is rare, and polls. It waits for a moment
// without deliveries and keeps none from beginning, so a delivery never waits for a change that
// itself waits for a slow handler. Thread-safe.
class FW_CAPABILITY ModeLock : core::Ranked {
 public:
  ModeLock() : Ranked(core::LockRank::kNotificationMode) {}

  void lock_shared() FW_ACQUIRE_SHARED() {
    before_lock();
    while ((word_.fetch_add(1, std::memory_order_acquire) & kExclusive) != 0) {
      word_.fetch_sub(1, std::memory_order_relaxed);
      core::poll_until([this] { return (word_.load() & kExclusive) == 0; },
                       core::Deadline::never());
    }
    locked();
  }
  // False where a change is under way, which may be calling a handler.
  bool try_lock_shared() {
    before_lock();
    if ((word_.fetch_add(1, std::memory_order_acquire) & kExclusive) == 0) {
      locked();
      return true;
    }
    word_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  void unlock_shared() FW_RELEASE_SHARED() {
    before_unlock();
    word_.fetch_sub(1, std::memory_order_release);
  }
  // For what clang cannot see, because a lane stands between.
  void is_shared_here() const FW_ASSERT_SHARED_CAPABILITY(this) {}

  // False when the deadline passes first.
  bool lock_until(core::Deadline deadline) FW_TRY_ACQUIRE(true) {
    before_lock();
    const bool taken = core::poll_until(
        [this] {
          std::uint64_t free = 0;
          return word_.compare_exchange_strong(free, kExclusive, std::memory_order_acquire);
        },
        deadline);
    if (taken) locked();
    return taken;
  }
  void unlock() FW_RELEASE() {
    before_unlock();
    word_.fetch_sub(kExclusive, std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t kExclusive = std::uint64_t{1} << 63;

  std::atomic<std::uint64_t> word_{0};  // deliveries under way, and the top bit
};

}  // namespace farwrite::device
