#include "core/left_at_fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

namespace farwrite::core {
namespace {

constexpr int kMostDescriptors = 65536;

// By descriptor: the inode of the socket, by which a number that is another file's now is known.
// Zero: none.
constinit std::array<std::atomic<std::uint64_t>, kMostDescriptors> left_sockets{};
constinit std::atomic<int> end_of_left{0};

std::uint64_t inode_of(int fd) {
  struct stat found{};
  return ::fstat(fd, &found) == 0 && S_ISSOCK(found.st_mode) ? found.st_ino : 0;
}

// In the child, before fork(2) returns there: system calls and atomics alone are safe.
void leave_sockets() {
  for (int fd = 0; fd < end_of_left.load(std::memory_order_relaxed); ++fd) {
    std::atomic<std::uint64_t>& left = left_sockets[static_cast<std::size_t>(fd)];
    const std::uint64_t inode = left.load(std::memory_order_relaxed);
    if (inode == 0) continue;  // without a store, which would copy the page
    left.store(0, std::memory_order_relaxed);
    if (inode_of(fd) != inode) continue;
    // First, because the child may have no other descriptor. No other thread takes it.
    ::close(fd);
    const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0 || null == fd) continue;
    ::dup3(null, fd, O_CLOEXEC);
    ::close(null);
  }
}

[[gnu::constructor]] void watch_forks_for_sockets() {
  if (::pthread_atfork(nullptr, nullptr, leave_sockets) == 0) return;
  std::fputs("farwrite: pthread_atfork failed for lack of memory, so children would hold sockets\n",
             stderr);
  std::abort();
}

}  // namespace

void leave_at_fork(int fd) {
  const std::uint64_t inode = fd >= 0 && fd < kMostDescriptors ? inode_of(fd) : 0;
  if (inode == 0) return;
  left_sockets[static_cast<std::size_t>(fd)].store(inode, std::memory_order_relaxed);
  int seen = end_of_left.load(std::memory_order_relaxed);
  while (seen <= fd &&
         !end_of_left.compare_exchange_weak(seen, fd + 1, std::memory_order_relaxed)) {
  }
}

}  // namespace farwrite::core
