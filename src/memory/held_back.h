// HeldBack: things given up while a forked child may still read them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/mutex.h"
#include "memory/forked_readers.h"

namespace farwrite::memory {

// Thread-safe.
template <typename Thing>
class HeldBack {
 public:
  // Holds a thing that was made at a ForkedReaders::stamp() for which may_read() holds.
  void add(Thing thing, std::uint64_t made) {
    const std::uint64_t given_up = ForkedReaders::newest_fork();
    const core::Lock lock(mutex_);
    held_.push_back({std::move(thing), made, given_up});
    count_.store(held_.size(), std::memory_order_relaxed);
  }

  // Takes the things that no living child can read any more. Cheap while none are held.
  std::vector<Thing> take() {
    std::vector<Thing> free;
    if (empty()) return free;
    const std::uint64_t ended = ForkedReaders::refresh();
    const core::Lock lock(mutex_);
    // Those that were looked at since a child last ended are still read.
    const auto from = held_.begin() + static_cast<std::ptrdiff_t>(ended == ended_ ? looked_at_ : 0);
    const auto still_read = [](const HeldThing& held) {
      return ForkedReaders::may_read_between(held.made, held.given_up);
    };
    const auto unread = std::partition(from, held_.end(), still_read);
    for (auto at = unread; at != held_.end(); ++at) free.push_back(std::move(at->thing));
    held_.erase(unread, held_.end());
    ended_ = ended;
    looked_at_ = held_.size();
    count_.store(held_.size(), std::memory_order_relaxed);
    return free;
  }

  // One relaxed load.
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

 private:
  struct HeldThing {
    Thing thing;
    std::uint64_t made = 0;
    std::uint64_t given_up = 0;  // the newest fork then
  };

  core::Mutex mutex_{core::LockRank::kMemory, 1};
  std::vector<HeldThing> held_ FW_GUARDED_BY(mutex_);
  std::uint64_t ended_ FW_GUARDED_BY(mutex_) = 0;    // ForkedReaders::refresh() at the last look
  std::size_t looked_at_ FW_GUARDED_BY(mutex_) = 0;  // of held_, then
  std::atomic<std::size_t> count_{0};
};

}  // namespace farwrite::memory
