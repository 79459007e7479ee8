// ForkGuard: tells a forked child that what it holds is its parent's.
//
// fork(2) copies only the calling thread: in the child the pollers are gone, locks may be held for
// ever and arena memory is a private view (memory/inherited_mapping.h). So every object that owns
// such things carries a guard and answers with kForked in the child. Children of raw clone(2) or
// vfork(2) are not detected.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "farwrite/status.h"

namespace farwrite::core {

namespace internal {
// Written only by the child side of fork(2), when the process has a single thread.
extern std::atomic<std::uint64_t> process_generation;
}  // namespace internal

// Zero in the process that loaded Farwrite, and one more with every fork on the way to this
// process. Two siblings share a number: compare it only with one captured in an ancestor.
inline std::uint64_t process_generation() {
  return internal::process_generation.load(std::memory_order_relaxed);
}

// Takes no lock, so it works in any child. Thread-safe; copies share the generation.
class ForkGuard {
 public:
  ForkGuard() : generation_(process_generation()) {}

  // True in a child forked after this guard was made. One relaxed load: fit for hot paths.
  bool in_forked_child() const { return process_generation() != generation_; }

  // kForked in such a child, naming `operation` ("write") and the remedy.
  Status check(std::string_view operation) const {
    if (!in_forked_child()) [[likely]] {
      return Status();
    }
    return forked(operation);
  }

 private:
  static Status forked(std::string_view operation);

  std::uint64_t generation_;
};

}  // namespace farwrite::core
