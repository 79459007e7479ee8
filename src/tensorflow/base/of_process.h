// of_process: the one object of a kind that a process has. A forked child gets one of its own.
#pragma once

#include <sys/types.h>
#include <unistd.h>

#include <atomic>

#include "core/mutex.h"

namespace farwrite::plugin {

// What `make` returns at the first call in this process, never destroyed: its threads and its locks
// are the parent's in a forked child. Always the same `make` for one T. Thread-safe.
template <typename T, typename Make>
T& of_process(const Make& make) {
  static std::atomic<T*> the_one{nullptr};
  static std::atomic<pid_t> its_process{0};
  const pid_t process = ::getpid();
  if (its_process.load(std::memory_order_acquire) != process) {
    static core::Mutex* const mutex = new core::Mutex(core::LockRank::kProgram, 1);
    const core::Lock lock(*mutex);
    if (its_process.load() != process) {
      the_one.store(make());
      its_process.store(process, std::memory_order_release);
    }
  }
  return *the_one.load();
}

}  // namespace farwrite::plugin
