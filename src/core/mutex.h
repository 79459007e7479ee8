// Mutex, Lock and CondVar: locks, as clang's thread-safety analysis reads them.
//
// A field names the mutex that guards it (FW_GUARDED_BY), and a function the mutexes that its
// caller holds (FW_REQUIRES) or must not hold (FW_EXCLUDES). `make lint` lets clang check both on
// every path, and refuses the library's own mutexes, which libstdc++ does not annotate. Header-only
// C++17 in builds that do not check ranks, because the TensorFlow plug-in uses this file as well.
//
// After clang's manual: https://clang.llvm.org/docs/ThreadSafetyAnalysis.html
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#include "core/lock_rank.h"
#include "core/steady_condition.h"

// Several mutexes in FW_GUARDED_BY, all to write and any to read, need clang 23.
#if defined(__clang__) && __clang_major__ >= 23
#define FW_THREAD_SAFETY(attribute) __attribute__((attribute))
#else
#define FW_THREAD_SAFETY(attribute)
#endif
#define FW_CAPABILITY FW_THREAD_SAFETY(capability("mutex"))
#define FW_SCOPED_CAPABILITY FW_THREAD_SAFETY(scoped_lockable)
#define FW_GUARDED_BY(...) FW_THREAD_SAFETY(guarded_by(__VA_ARGS__))
#define FW_REQUIRES(...) FW_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define FW_EXCLUDES(...) FW_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
#define FW_ACQUIRE(...) FW_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define FW_ACQUIRE_SHARED(...) FW_THREAD_SAFETY(acquire_shared_capability(__VA_ARGS__))
#define FW_TRY_ACQUIRE(...) FW_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define FW_RELEASE(...) FW_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define FW_RELEASE_SHARED(...) FW_THREAD_SAFETY(release_shared_capability(__VA_ARGS__))
#define FW_RETURN_CAPABILITY(mutex) FW_THREAD_SAFETY(lock_returned(mutex))
#define FW_ASSERT_CAPABILITY(mutex) FW_THREAD_SAFETY(assert_capability(mutex))
#define FW_ASSERT_SHARED_CAPABILITY(mutex) FW_THREAD_SAFETY(assert_shared_capability(mutex))
#define FW_NO_THREAD_SAFETY_ANALYSIS FW_THREAD_SAFETY(no_thread_safety_analysis)

namespace farwrite::core {

class FW_CAPABILITY Mutex : Ranked {
 public:
  using Ranked::Ranked;

  void lock() FW_ACQUIRE() {
    before_lock();
    mutex_.lock();
    locked();
  }
  // Its rank is checked too: who tries until it succeeds waits all the same.
  bool try_lock() FW_TRY_ACQUIRE(true) {
    before_lock();
    if (!mutex_.try_lock()) return false;
    locked();
    return true;
  }
  void unlock() FW_RELEASE() {
    before_unlock();
    mutex_.unlock();
  }
  // For where the thread holds it and clang cannot know: in a callback, or by another name.
  void is_held_here() const FW_ASSERT_CAPABILITY(this) {}

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class FW_CAPABILITY SharedMutex : Ranked {
 public:
  using Ranked::Ranked;

  void lock() FW_ACQUIRE() {
    before_lock();
    mutex_.lock();
    locked();
  }
  void unlock() FW_RELEASE() {
    before_unlock();
    mutex_.unlock();
  }
  void lock_shared() FW_ACQUIRE_SHARED() {
    before_lock();
    mutex_.lock_shared();
    locked();
  }
  void unlock_shared() FW_RELEASE_SHARED() {
    before_unlock();
    mutex_.unlock_shared();
  }

 private:
  std::shared_mutex mutex_;
};

// Holds a mutex until the end of its scope, except between unlock() and lock().
class FW_SCOPED_CAPABILITY Lock {
 public:
  explicit Lock(Mutex& mutex) FW_ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }
  // Takes over what the thread holds already, as after try_lock().
  Lock(Mutex& mutex, std::adopt_lock_t /*held*/) FW_REQUIRES(mutex) : mutex_(mutex) {}
  ~Lock() FW_RELEASE() {
    if (held_) mutex_.unlock();
  }
  Lock(const Lock&) = delete;
  Lock& operator=(const Lock&) = delete;

  void lock() FW_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }
  void unlock() FW_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }

 private:
  Mutex& mutex_;
  bool held_ = true;
};

// Holds a shared mutex alone; ReaderLock holds it with other readers.
class FW_SCOPED_CAPABILITY WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) FW_ACQUIRE(mutex) : mutex_(mutex) { mutex.lock(); }
  ~WriterLock() FW_RELEASE() { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class FW_SCOPED_CAPABILITY ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) FW_ACQUIRE_SHARED(mutex) : mutex_(mutex) {
    mutex.lock_shared();
  }
  ~ReaderLock() FW_RELEASE() { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

// Releases a mutex, which the thread holds, until the end of its scope.
class FW_SCOPED_CAPABILITY Unlock {
 public:
  explicit Unlock(Mutex& mutex) FW_RELEASE(mutex) : mutex_(mutex) { mutex.unlock(); }
  ~Unlock() FW_RELEASE() { mutex_.lock(); }
  Unlock(const Unlock&) = delete;
  Unlock& operator=(const Unlock&) = delete;

 private:
  Mutex& mutex_;
};

// A condition variable, which waits with a mutex that the thread holds, and counts on the steady
// clock. A predicate that reads guarded fields says FW_REQUIRES(mutex) itself. Notify without the
// mutex: the thread that wakes takes it, and would sleep once more. With it only where that thread
// may destroy this at once.
class CondVar {
 public:
  void notify_one() { changed_.notify_one(); }
  void notify_all() { changed_.notify_all(); }

  void wait(Mutex& mutex) FW_REQUIRES(mutex) {
    const Released released(mutex);
    changed_.wait(mutex.mutex_);
  }
  std::cv_status wait_until(Mutex& mutex, std::chrono::steady_clock::time_point end)
      FW_REQUIRES(mutex) {
    const Released released(mutex);
    return changed_.wait_until(mutex.mutex_, end);
  }
  template <typename Rep, typename Period>
  std::cv_status wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> longest)
      FW_REQUIRES(mutex) {
    return wait_until(mutex, std::chrono::steady_clock::now() + longest);
  }

  // Until the predicate holds; with an end, whether it holds then.
  template <typename Predicate>
  void wait(Mutex& mutex, Predicate ended) FW_REQUIRES(mutex) FW_NO_THREAD_SAFETY_ANALYSIS {
    while (!ended()) wait(mutex);
  }
  template <typename Predicate>
  bool wait_until(Mutex& mutex, std::chrono::steady_clock::time_point end, Predicate ended)
      FW_REQUIRES(mutex) FW_NO_THREAD_SAFETY_ANALYSIS {
    while (!ended()) {
      if (wait_until(mutex, end) == std::cv_status::timeout) return ended();
    }
    return true;
  }
  template <typename Rep, typename Period, typename Predicate>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> longest, Predicate ended)
      FW_REQUIRES(mutex) {
    return wait_until(mutex, std::chrono::steady_clock::now() + longest, ended);
  }

 private:
  // A wait releases the mutex, and so its rank.
  struct Released {
    explicit Released(Mutex& held) : mutex(held) { mutex.before_unlock(); }
    ~Released() { mutex.locked(); }
    Released(const Released&) = delete;
    Released& operator=(const Released&) = delete;

    Mutex& mutex;
  };

  SteadyCondition changed_;
};

}  // namespace farwrite::core
