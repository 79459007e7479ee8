#include "base/work_queue.h"

#include <system_error>
#include <thread>
#include <utility>

#include "base/of_process.h"
#include "core/mutex.h"

namespace farwrite::plugin {
namespace {

// What is submitted is short: a step's continuation puts nodes into TensorFlow's own pools.
constexpr int kThreads = 4;

}  // namespace

bool start_thread(std::function<void()> body) {
  try {
    std::thread(std::move(body)).detach();
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

WorkQueue& WorkQueue::of_process() {
  return plugin::of_process<WorkQueue>([] { return new WorkQueue; });
}

bool WorkQueue::start() {
  const core::Lock lock(starting_);
  serves_later_ = serves_later_ || start_thread([this] { serve_later(); });
  while (serving_ < kThreads && start_thread([this] { serve(); })) ++serving_;
  return serves_later_ && serving_ > 0;
}

void WorkQueue::submit(std::function<void()> work) {
  bool wake = false;
  {
    const core::Lock lock(mutex_);
    queue_.push_back(std::move(work));
    wake = calls_another();
  }
  if (wake) ready_.notify_one();
}

bool WorkQueue::calls_another() {
  return !queue_.empty() && sleeping_ > 0 && !std::exchange(waking_, true);
}

void WorkQueue::serve() {
  core::Lock lock(mutex_);
  while (true) {
    while (queue_.empty()) {
      ++sleeping_;
      ready_.wait(mutex_);
      --sleeping_;
      waking_ = false;
    }
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    const bool wake = calls_another();  // this one may take long
    lock.unlock();
    if (wake) ready_.notify_one();
    work();
    work = nullptr;  // what it holds goes without the lock
    lock.lock();
  }
}

void WorkQueue::submit_after(std::chrono::microseconds delay, std::function<void()> work) {
  const auto when = std::chrono::steady_clock::now() + delay;
  const core::Lock lock(later_mutex_);
  const bool is_next = later_.empty() || when < later_.begin()->first;
  later_.emplace(when, std::move(work));
  if (is_next) sooner_.notify_one();
}

void WorkQueue::submit_later(std::chrono::microseconds delay, std::function<void()> work) {
  submit_after(delay, [this, work = std::move(work)]() mutable { submit(std::move(work)); });
}

void WorkQueue::serve_later() {
  core::Lock lock(later_mutex_);
  while (true) {
    if (later_.empty()) {
      sooner_.wait(later_mutex_);
      continue;
    }
    const auto next = later_.begin();
    if (std::chrono::steady_clock::now() < next->first) {
      sooner_.wait_until(later_mutex_, next->first);
      continue;
    }
    std::function<void()> work = std::move(next->second);
    later_.erase(next);
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
  }
}

}  // namespace farwrite::plugin
