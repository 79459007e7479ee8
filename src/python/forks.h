// ForkMark: tells a forked child that what it holds is its parent's.
//
// The library answers calls on its handles with kForked in the child. The bindings have a guard
// beside that for what they hold themselves, and to refuse every use of a handle in the same words.
// Children of raw clone(2) or vfork(2) are not detected.
#pragma once

#include <atomic>
#include <cstdint>

namespace farwrite::python {

namespace internal {
// The forks on the way to this process since the module was loaded. Written only by the child side
// of fork(2), when the process has a single thread.
extern std::atomic<std::uint64_t> forks;
}  // namespace internal

// Thread-safe; takes no lock.
class ForkMark {
 public:
  ForkMark() : forks_(internal::forks.load(std::memory_order_relaxed)) {}

  // True in a child forked after this mark was made.
  bool in_forked_child() const { return internal::forks.load(std::memory_order_relaxed) != forks_; }

 private:
  std::uint64_t forks_;
};

}  // namespace farwrite::python
