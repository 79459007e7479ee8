// SteadyCondition: a condition variable for a std::mutex, which counts its waits on the steady
// clock.
//
// std::condition_variable of libc++ does not where it is built for a glibc before 2.30: it waits by
// the wall clock, and a clock that is set back makes a wait with a limit that much longer.
// Header-only C++17, and includes nothing of Farwrite: the TensorFlow plug-in and the Python module
// use it as well.
#pragma once

#include <pthread.h>

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <ctime>
#include <mutex>

namespace farwrite::core {

class SteadyCondition {
 public:
  SteadyCondition() {
    pthread_condattr_t steady;
    ::pthread_condattr_init(&steady);
    ::pthread_condattr_setclock(&steady, CLOCK_MONOTONIC);
    ::pthread_cond_init(&changed_, &steady);
    ::pthread_condattr_destroy(&steady);
  }
  ~SteadyCondition() { ::pthread_cond_destroy(&changed_); }
  SteadyCondition(const SteadyCondition&) = delete;
  SteadyCondition& operator=(const SteadyCondition&) = delete;

  void notify_one() { ::pthread_cond_signal(&changed_); }
  void notify_all() { ::pthread_cond_broadcast(&changed_); }

  // The thread holds `mutex`.
  void wait(std::mutex& mutex) { ::pthread_cond_wait(&changed_, mutex.native_handle()); }
  std::cv_status wait_until(std::mutex& mutex, std::chrono::steady_clock::time_point end) {
    const auto seconds = std::chrono::floor<std::chrono::seconds>(end);
    const timespec at{static_cast<std::time_t>(seconds.time_since_epoch().count()),
                      static_cast<long>(std::chrono::nanoseconds(end - seconds).count())};
    return ::pthread_cond_timedwait(&changed_, mutex.native_handle(), &at) == ETIMEDOUT
               ? std::cv_status::timeout
               : std::cv_status::no_timeout;
  }
  // Until the predicate holds; whether it holds then.
  template <typename Predicate>
  bool wait_for(std::mutex& mutex, std::chrono::nanoseconds longest, Predicate ended) {
    const auto end = std::chrono::steady_clock::now() + longest;
    while (!ended()) {
      if (wait_until(mutex, end) == std::cv_status::timeout) return ended();
    }
    return true;
  }

 private:
  pthread_cond_t changed_;
};

}  // namespace farwrite::core
