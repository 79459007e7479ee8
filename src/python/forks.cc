#include "python/forks.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>

namespace farwrite::python {
namespace internal {

constinit std::atomic<std::uint64_t> forks{0};

}  // namespace internal

namespace {

// Runs in the child before fork(2) returns there. An atomic add is all that is safe here.
void count_fork() { internal::forks.fetch_add(1, std::memory_order_relaxed); }

// While the module is loaded, not at the first mark: a fork in another thread could come between.
[[gnu::constructor]] void watch_forks() {
  if (::pthread_atfork(nullptr, nullptr, count_fork) == 0) return;
  std::fputs(
      "farwrite: pthread_atfork failed for lack of memory, so a fork could not be detected\n",
      stderr);
  std::abort();
}

}  // namespace
}  // namespace farwrite::python
