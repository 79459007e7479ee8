// WorkQueue: the process's threads for what must not run where it came up.
//
// Never runs anything on the caller's thread, however much is queued: callers hold locks that what
// they submit will take. TensorFlow's own pools do run it there when they are full.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <mutex>

#include "core/mutex.h"

namespace farwrite::plugin {

// Runs `body` in a thread that nothing joins. False if the system refuses one.
bool start_thread(std::function<void()> body);

// Thread-safe; lives as long as the process.
class WorkQueue {
 public:
  // The one of this process, made by the first call. A forked child gets one of its own.
  static WorkQueue& of_process();
  // Starts what is missing of its threads. False if the system refuses it all: what is submitted
  // waits for a thread then.
  bool start();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void submit(std::function<void()> work);
  // When `delay` has passed, on the one thread for that: `work` must be short.
  void submit_after(std::chrono::microseconds delay, std::function<void()> work);
  // submit(), when `delay` has passed.
  void submit_later(std::chrono::microseconds delay, std::function<void()> work);

 private:
  WorkQueue() { start(); }
  void serve();
  void serve_later();
  // Whether to wake a thread. Tensors arrive in bursts, each of them little work: as long as one
  // thread is on its way, it is not worth a system call to send for a second.
  bool calls_another() FW_REQUIRES(mutex_);

  core::Mutex starting_{core::LockRank::kProgram};
  int serving_ FW_GUARDED_BY(starting_) = 0;
  bool serves_later_ FW_GUARDED_BY(starting_) = false;

  core::Mutex mutex_{core::LockRank::kProgram};
  core::CondVar ready_;
  int sleeping_ FW_GUARDED_BY(mutex_) = 0;
  bool waking_ FW_GUARDED_BY(mutex_) = false;  // a sleeper has been called and is not there yet
  std::deque<std::function<void()>> queue_ FW_GUARDED_BY(mutex_);

  core::Mutex later_mutex_{core::LockRank::kProgram};
  core::CondVar sooner_;
  std::multimap<std::chrono::steady_clock::time_point, std::function<void()>> later_
      FW_GUARDED_BY(later_mutex_);
};

}  // namespace farwrite::plugin
