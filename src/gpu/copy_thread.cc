#include "gpu/copy_thread.h"

#include <utility>

#include "core/signals_blocked.h"

namespace farwrite::gpu {

CopyThread& CopyThread::get() {
  static auto* const thread = new CopyThread();  // may be at work when the process ends
  return *thread;
}

CopyThread::CopyThread() {
  const core::SignalsBlocked blocked;
  std::thread([this] { loop(); }).detach();
}

void CopyThread::run(std::function<void()> work) {
  const std::lock_guard lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_one();
}

void CopyThread::loop() {
  std::unique_lock lock(mutex_);
  while (true) {
    while (queue_.empty()) changed_.wait(lock);
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

}  // namespace farwrite::gpu
