#include "core/fork_guard.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "core/left_to_parent.h"
#include "core/mutex.h"

namespace farwrite::core {
namespace internal {

constinit std::atomic<std::uint64_t> process_generation{0};

}  // namespace internal

namespace {

// Runs in the child before fork(2) returns there. An atomic add is all that is safe here: the locks
// of the C library itself may be held by a thread that the child does not have.
void count_fork() { internal::process_generation.fetch_add(1, std::memory_order_relaxed); }

// Registered while the library is loaded, not at the first guard: a lazy registration would take a
// lock that a concurrent fork could leave locked in the child.
[[gnu::constructor]] void watch_forks() {
  if (::pthread_atfork(nullptr, nullptr, count_fork) == 0) return;
  std::fputs(
      "farwrite: pthread_atfork failed for lack of memory, so a fork could not be detected\n",
      stderr);
  std::abort();
}

}  // namespace

void keep_for_ever(std::shared_ptr<void> thing) {
  // Never destroyed, so that it goes on to refer to them while the process ends.
  static Mutex mutex{LockRank::kCore};
  static auto* const things = new std::vector<std::shared_ptr<void>>;
  const Lock lock(mutex);
  things->push_back(std::move(thing));
}

Status ForkGuard::forked(std::string_view operation) {
  return Status::error(
      StatusCode::kForked, {.operation = operation},
      "this process is a forked child, and the object belongs to its parent process",
      "open a device after the fork, or use the spawn start method");
}

}  // namespace farwrite::core
