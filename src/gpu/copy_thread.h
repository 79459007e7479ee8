// CopyThread: runs copies that no caller waits for.
#pragma once

#include <deque>
#include <functional>

#include "core/mutex.h"
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

  core::Mutex mutex_{core::LockRank::kGpu};
  core::CondVar changed_;
  bool running_ FW_GUARDED_BY(mutex_) = false;
  std::deque<std::function<void()>> queue_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::gpu
