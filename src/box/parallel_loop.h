// ParallelLoop: threads that share the parts of a loop with the thread that runs it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "core/fork_guard.h"

namespace farwrite::box {

// Thread-safe: any number of threads may call run() at the same time. The helpers take parts of
// whichever loop has some left, and a caller never waits for a helper that has not begun a part.
class ParallelLoop {
 public:
  // `threads` counts the caller of run() in, so 1 starts no helper. A helper that the system has no
  // thread for is left out: the loops then take longer.
  explicit ParallelLoop(unsigned threads);
  // Not while a run() is under way. In a forked child it leaves behind what it cannot free safely.
  ~ParallelLoop();
  ParallelLoop(const ParallelLoop&) = delete;
  ParallelLoop& operator=(const ParallelLoop&) = delete;

  // Calls body(0) to body(parts - 1), each once, in any order and on any of the threads, and
  // returns when all have returned. What they wrote is visible to the caller then. `body` must not
  // throw; it may call run(). In a forked child the caller does every part.
  void run(std::size_t parts, const std::function<void(std::size_t part)>& body);

  // The threads that one run() can use: the caller, and the helpers that were started.
  unsigned threads() const;

 private:
  class State;

  std::unique_ptr<State> state_;
  const core::ForkGuard fork_guard_;
};

}  // namespace farwrite::box
