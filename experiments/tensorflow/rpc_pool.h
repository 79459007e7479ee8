// RpcPool: threads that work off one queue.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "tensorflow/core/platform/threadpool.h"

namespace farwrite::experiments {

// Thread-safe. Its queue has no bound: TensorFlow's pool, whose queues have one, runs what does not
// fit in the caller's thread, under the caller's locks. Destroy it only when nothing is queued.
class RpcPool {
 public:
  explicit RpcPool(int threads);

  // `work` never runs in this call.
  void schedule(std::function<void()> work);

 private:
  void work_off();

  const int most_;
  std::mutex mutex_;
  std::deque<std::function<void()>> queue_;
  int working_ = 0;  // threads in work_off(), or on their way there
  tensorflow::thread::ThreadPool threads_;
};

}  // namespace farwrite::experiments
