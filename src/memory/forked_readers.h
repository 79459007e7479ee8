// ForkedReaders: which forked children may still read memory that this process had at their fork.
//
// A child sees an arena's memory as it was shared with it (inherited_mapping.h), so a block that
// lived at the fork must not hold something else while the child lives. Forks are numbered. What is
// made remembers how many there were, and a child reads what was made before its own fork.
//
// The kernel tells when a child has ended: every fork gets an empty memory file, which the child
// maps and this process does not. The file can be sealed against writing once no process maps it:
// when the child and all its descendants have ended or run another program. Unlike the end of a
// pipe, a mapping survives a child that closes every descriptor.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "core/mutex.h"

namespace farwrite::memory {

// Functions about this process, thread-safe. In a forked child they know the child's own children.
class ForkedReaders {
 public:
  // Whether any may live. One relaxed load: fit for hot paths. Stays true until refresh().
  static bool any() { return newest_.load(std::memory_order_relaxed) != 0; }
  // To remember with what is made now; needless while there are none.
  static std::uint64_t stamp() { return forks_.load(std::memory_order_relaxed); }
  // Whether a child that may live was forked after `made`.
  static bool may_read(std::uint64_t made) {
    return made < newest_.load(std::memory_order_relaxed);
  }

  // Forgets the children that have ended. How many times some have, ever.
  static std::uint64_t refresh();
  // Whether a child that may live was forked after `made` and up to `given_up`.
  static bool may_read_between(std::uint64_t made, std::uint64_t given_up);
  // The number of the newest fork, one under way included.
  static std::uint64_t newest_fork();

  // This process has nothing left that a child could have inherited.
  static void forget_all();

  // What a fork calls (inherited_mapping.cc). Children who inherit nothing need no watching.
  static void before_fork(bool inherits) FW_NO_THREAD_SAFETY_ANALYSIS;
  static void after_fork_in_parent() FW_NO_THREAD_SAFETY_ANALYSIS;
  static void after_fork_in_child() FW_NO_THREAD_SAFETY_ANALYSIS;

 private:
  static std::atomic<std::uint64_t> newest_;  // the newest fork whose child may live, 0: none
  static std::atomic<std::uint64_t> forks_;   // that are over
};

}  // namespace farwrite::memory
