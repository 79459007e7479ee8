// WorkQueue: the threads that continue a step.
//
// Never runs anything on the caller's thread, however much is queued: callers hold locks that what
// they submit will take. TensorFlow's own pools do run it there when they are full.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace farwrite::plugin {

// Thread-safe; lives as long as the process.
class WorkQueue {
 public:
  explicit WorkQueue(int threads);
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  void submit(std::function<void()> work);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable ready_;
  std::deque<std::function<void()>> queue_;
};

}  // namespace farwrite::plugin
