// ModeLock: shared by deliveries, and exclusive for a thread that changes where they go.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

#include "core/deadline.h"
#include "core/mutex.h"
#include "core/poll_until.h"

namespace farwrite::device {

// A delivery pays one atomic addition each way, where a shared mutex of the library pays two calls:
// it is on the way of every notification. A change is rare, and polls for a moment without
// deliveries. While it does, a delivery that may wait lets it go first, but not for long: the
// change may wait for a slow handler, and the delivery must not. Thread-safe.
class FW_CAPABILITY ModeLock : core::Ranked {
 public:
  ModeLock() : Ranked(core::LockRank::kUserCode, 0, core::Siblings::kAnyOrder) {}

  void lock_shared() FW_ACQUIRE_SHARED() {
    before_lock();
    if ((word_.fetch_add(1, std::memory_order_acquire) & kChange) != 0) [[unlikely]] {
      word_.fetch_sub(1, std::memory_order_relaxed);
      wait_while(kChange, core::Deadline::after(kGivesWay));
      while ((word_.fetch_add(1, std::memory_order_acquire) & kExclusive) != 0) {
        word_.fetch_sub(1, std::memory_order_relaxed);
        wait_while(kExclusive, core::Deadline::never());
      }
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
          word_.fetch_or(kWaiting);  // again, because another change may have taken it away
          std::uint64_t free = kWaiting;
          return word_.compare_exchange_strong(free, kExclusive, std::memory_order_acquire);
        },
        deadline);
    if (!taken) word_.fetch_and(~kWaiting);
    if (taken) locked();
    return taken;
  }
  void unlock() FW_RELEASE() {
    before_unlock();
    word_.fetch_sub(kExclusive, std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t kExclusive = std::uint64_t{1} << 63;
  static constexpr std::uint64_t kWaiting = std::uint64_t{1} << 62;
  static constexpr std::uint64_t kChange = kExclusive | kWaiting;
  // Longer than a quick handler takes for one poll's notifications, so that deliveries of several
  // lanes give way at the same time.
  static constexpr std::chrono::milliseconds kGivesWay{10};

  void wait_while(std::uint64_t bits, core::Deadline deadline) const {
    core::poll_until([this, bits] { return (word_.load() & bits) == 0; }, deadline);
  }

  std::atomic<std::uint64_t> word_{0};  // deliveries under way, and the bits of changes
};

}  // namespace farwrite::device
