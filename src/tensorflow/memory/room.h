// Room: wakes those who found no registered memory, or a full queue, once there may be room again.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/mutex.h"

namespace farwrite::plugin {

// Thread-safe; lives as long as the process.
class Room {
 public:
  // The one of this process. A forked child gets one of its own.
  static Room& of_process();
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  // Registered memory was freed, a lease on it has ended, a message has left a queue, or a peer has
  // gone. Not for what the same try had taken.
  static void came_back() {
    returns_.fetch_add(1);
    if (waiting_.load() > 0) of_process().wake();
  }
  // How often. Asked before the try that finds no room.
  static std::uint64_t returns() { return returns_.load(); }
  // Runs `again` on the work queue, once: soon after something has come back since `seen`. In any
  // case after kLongest, because a lost chance must cost no more than that.
  void wait(std::uint64_t seen, std::function<void()> again);

 private:
  static constexpr std::chrono::milliseconds kLongest{200};

  Room() = default;
  void wake();

  // Of the process, and not of the object: most of what comes back finds that nothing waits.
  static inline std::atomic<std::uint64_t> returns_{0};
  static inline std::atomic<std::size_t> waiting_{0};  // mirrors waiters_.size()
  core::Mutex mutex_{core::LockRank::kProgram, 1};
  std::vector<std::function<void()>> waiters_ FW_GUARDED_BY(mutex_);
  bool timed_ FW_GUARDED_BY(mutex_) = false;  // all will be woken when kLongest is over
};

}  // namespace farwrite::plugin
