// Room: wakes those who found no registered memory, once some has come back.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>

#include "core/mutex.h"

namespace farwrite::plugin {

// Thread-safe; lives as long as the process.
class Room {
 public:
  // The one of this process. A forked child gets one of its own.
  static Room& of_process();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // Registered memory was freed, a lease on it has ended, or a peer that holds some has gone.
  void came_back() {
    returns_.fetch_add(1);
    if (waiting_.load() > 0) wake();
  }
  // How often. Asked before the try that finds no room.
  std::uint64_t returns() const { return returns_.load(); }
  // Runs `again` on the work queue, once: soon after something has come back since `seen`, and at
  // the latest after kLongest, because nothing announces room in a channel's queue.
  void wait(std::uint64_t seen, std::function<void()> again);

 private:
  static constexpr std::chrono::milliseconds kLongest{200};

  Room() = default;
  void wake();
  void run(std::uint64_t waiter);

  std::atomic<std::uint64_t> returns_{0};
  std::atomic<std::size_t> waiting_{0};  // mirrors waiters_.size()
  core::Mutex mutex_{core::LockRank::kProgram};
  std::uint64_t last_ FW_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, std::function<void()>> waiters_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::plugin
