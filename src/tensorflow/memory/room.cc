#include "memory/room.h"

#include <utility>

#include "base/of_process.h"
#include "base/work_queue.h"

namespace farwrite::plugin {
namespace {

// What comes back in this time wakes a waiter once.
constexpr std::chrono::milliseconds kGathers(1);

}  // namespace

Room& Room::of_process() {
  return plugin::of_process<Room>([] { return new Room; });
}

void Room::wait(std::uint64_t seen, std::function<void()> again) {
  std::uint64_t waiter = 0;
  {
    const core::Lock lock(mutex_);
    waiter = ++last_;
    waiters_.emplace(waiter, std::move(again));
    waiting_.store(waiters_.size());
  }
  WorkQueue::of_process().submit_later(kLongest, [this, waiter] { run(waiter); });
  if (returns() != seen) wake();
}

void Room::wake() {
  std::map<std::uint64_t, std::function<void()>> woken;
  {
    const core::Lock lock(mutex_);
    woken.swap(waiters_);
    waiting_.store(0);
  }
  for (auto& [waiter, again] : woken) {
    WorkQueue::of_process().submit_later(kGathers, std::move(again));
  }
}

void Room::run(std::uint64_t waiter) {
  std::function<void()> again;
  {
    const core::Lock lock(mutex_);
    const auto found = waiters_.find(waiter);
    if (found == waiters_.end()) return;  // it has been woken
    again = std::move(found->second);
    waiters_.erase(found);
    waiting_.store(waiters_.size());
  }
  again();
}

}  // namespace farwrite::plugin
