// poll_until: waits for what nothing announces.
#pragma once

#include <algorithm>
#include <chrono>
#include <thread>

#include "core/deadline.h"
#include "core/mutex.h"

namespace farwrite::core {

// Asks at once and then after pauses that grow from 1 us to 1 ms, until `holds` returns true; false
// when the deadline passes first. For rare waits only: closing, revoking.
template <typename Holds>
bool poll_until(Holds holds, Deadline deadline) {
  std::chrono::nanoseconds pause = std::chrono::microseconds(1);
  while (!holds()) {
    if (deadline.expired()) return holds();
    std::this_thread::sleep_for(std::min(pause, deadline.remaining()));
    pause = std::min<std::chrono::nanoseconds>(pause * 2, std::chrono::milliseconds(1));
  }
  return true;
}

inline bool lock_until(Mutex& mutex, Deadline deadline)
    FW_TRY_ACQUIRE(true, mutex) FW_NO_THREAD_SAFETY_ANALYSIS {
  return poll_until([&mutex] { return mutex.try_lock(); }, deadline);
}

}  // namespace farwrite::core
