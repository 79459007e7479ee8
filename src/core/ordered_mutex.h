// OrderedMutex: a mutex with a rank, so that builds which check find threads that could deadlock.
//
// Two threads that lock two mutexes in opposite orders deadlock only when they meet. The check
// finds the wrong order in the first thread that takes it. FARWRITE_CHECK_LOCK_ORDER turns it on.
// Debug builds define that macro, and so do all sanitizer presets but tsan, because ThreadSanitizer
// reports wrong orders itself. Without it, an OrderedMutex is a std::mutex.
#pragma once

#include <condition_variable>
#include <mutex>

#include "core/lock_rank.h"

namespace farwrite::core {

#ifdef FARWRITE_CHECK_LOCK_ORDER

// What this thread holds.
class HeldLocks {
 public:
  // Aborts, and names both mutexes, when this thread holds one of `rank` or of a later rank.
  static void check(LockRank rank);
  static void add(LockRank rank);
  static void remove(LockRank rank);
};

// `Mutex` is std::mutex, or another one with members of the same names.
template <LockRank kRank, typename Mutex = std::mutex>
class OrderedMutex {
 public:
  void lock() {
    HeldLocks::check(kRank);
    mutex_.lock();
    HeldLocks::add(kRank);
  }
  // Checked too: who tries until it succeeds waits all the same.
  bool try_lock() {
    HeldLocks::check(kRank);
    if (!mutex_.try_lock()) return false;
    HeldLocks::add(kRank);
    return true;
  }
  void unlock() {
    HeldLocks::remove(kRank);
    mutex_.unlock();
  }
  // Of a mutex that has it.
  template <typename Deadline>
  bool lock_until(Deadline deadline) {
    HeldLocks::check(kRank);
    if (!mutex_.lock_until(deadline)) return false;
    HeldLocks::add(kRank);
    return true;
  }
  void lock_shared() {
    HeldLocks::check(kRank);
    mutex_.lock_shared();
    HeldLocks::add(kRank);
  }
  void unlock_shared() {
    HeldLocks::remove(kRank);
    mutex_.unlock_shared();
  }

 private:
  Mutex mutex_;
};

// Waits with a lock on any OrderedMutex.
using OrderedCondition = std::condition_variable_any;

#else

template <LockRank, typename Mutex = std::mutex>
using OrderedMutex = Mutex;
using OrderedCondition = std::condition_variable;

#endif

}  // namespace farwrite::core
