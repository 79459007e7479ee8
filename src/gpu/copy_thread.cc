#include "gpu/copy_thread.h"

#include <thread>
#include <utility>

#include "core/mutex.h"
#include "core/start_thread.h"

namespace farwrite::gpu {

CopyThread& CopyThread::get() {
  static auto* const thread = new CopyThread();  // may be at work when the process ends
  return *thread;
}

Status CopyThread::run(std::function<void()> work) {
  {
    const core::Lock lock(mutex_);
    if (!running_) {
      std::thread thread;
      FARWRITE_RETURN_IF_ERROR(
          core::start_thread(thread, {"copy to the GPU's memory"}, [this] { loop(); }));
      thread.detach();
      running_ = true;
    }
    queue_.push_back(std::move(work));
  }
  changed_.notify_one();
  return Status();
}

void CopyThread::loop() {
  core::Lock lock(mutex_);
  while (true) {
    while (queue_.empty()) changed_.wait(mutex_);
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace farwrite::gpu
