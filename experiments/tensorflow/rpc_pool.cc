#include "rpc_pool.h"

#include <utility>

#include "tensorflow/core/platform/env.h"

namespace farwrite::experiments {

namespace tf = ::tensorflow;

RpcPool::RpcPool(int threads)
    : most_(threads),
      threads_(tf::Env::Default(), tf::ThreadOptions(), "rpc_over_fabric", threads,
               /*low_latency_hint=*/false) {}

void RpcPool::schedule(std::function<void()> work) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    queue_.push_back(std::move(work));
    if (working_ == most_) return;
    ++working_;
  }
  threads_.Schedule([this] { work_off(); });
}

void RpcPool::work_off() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!queue_.empty()) {
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    work();
    work = nullptr;  // what it holds may take locks at its end
    lock.lock();
  }
  --working_;
}

}  // namespace farwrite::experiments
