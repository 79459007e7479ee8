#include "memory/room.h"

#include <utility>

#include "base/of_process.h"
#include "base/work_queue.h"

namespace farwrite::plugin {
namespace {

// What comes back in this time wakes a waiter once.
constexpr std::chrono::milliseconds kGathers(2);

}  // namespace

Room& Room::of_process() {
  return plugin::of_process<Room>([] { return new Room; });
}

void Room::wait(std::uint64_t seen, std::function<void()> again) {
  bool timed = false;
  {
    const core::Lock lock(mutex_);
    waiters_.push_back(std::move(again));
    waiting_.store(waiters_.size());
    timed = std::exchange(timed_, true);
  }
  if (!timed) {
    WorkQueue::of_process().submit_later(kLongest, [this] {
      {
        const core::Lock lock(mutex_);
        timed_ = false;
      }
      wake();
    });
  }
  if (returns() != seen) wake();
}

void Room::wake() {
  std::vector<std::function<void()>> woken;
  {
    const core::Lock lock(mutex_);
    woken.swap(waiters_);
    waiting_.store(0);
  }
  for (std::function<void()>& again : woken) {
    WorkQueue::of_process().submit_later(kGathers, std::move(again));
  }
}

}  // namespace farwrite::plugin
