#include "work_queue.h"

#include <thread>
#include <utility>

namespace farwrite::plugin {

WorkQueue::WorkQueue(int threads) {
  for (int i = 0; i < threads; ++i) std::thread([this] { serve(); }).detach();
}

void WorkQueue::submit(std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
  }
  ready_.notify_one();
}

void WorkQueue::serve() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    ready_.wait(lock, [this] { return !queue_.empty(); });
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds goes without the lock
    lock.lock();
  }
}

}  // namespace farwrite::plugin
