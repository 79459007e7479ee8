// CopyThread: runs copies that no caller waits for.
#pragma once

#include <deque>
#include <functional>
#include <mutex>

#include "core/ordered_mutex.h"
#include "farwrite/status.h"

namespace farwrite::gpu {

// The process's one thread for them, started at the first copy and never ended. Thread-safe. Not
// usable in a forked child.
class CopyThread {
 public:
  static CopyThread& get();

  // Runs `work`, which may block for the GPU, after earlier work. Never blocks. On an error, for
  // want of a thread, `work` is dropped.
  Status run(std::function<void()> work);

 private:
  CopyThread() = default;
  void loop();

  core::OrderedMutex<core::LockRank::kGpuCopies> mutex_;
  core::OrderedCondition changed_;
  bool running_ = false;
  std::deque<std::function<void()>> queue_;
};

}  // namespace farwrite::gpu
