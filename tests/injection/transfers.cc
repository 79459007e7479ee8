// Calls that move bytes or wait, and clocks.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "strike.h"

namespace {

using injection::fail;
using injection::strike;
using injection::strike_ours;

bool is(int descriptor, mode_t type) {
  struct stat found{};
  return ::fstat(descriptor, &found) == 0 && (found.st_mode & S_IFMT) == type;
}

// Sends half of the bytes, and closes the connection there.
ssize_t send_half(int descriptor, const iovec* parts, std::size_t count, int flags) {
  std::vector<char> bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const auto* const begin = static_cast<const char*>(parts[i].iov_base);
    bytes.insert(bytes.end(), begin, begin + parts[i].iov_len);
  }
  const std::size_t half = bytes.size() / 2;
  const iovec part{bytes.data(), half};
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(&part);
  message.msg_iovlen = 1;
  static const auto behind = reinterpret_cast<decltype(&::sendmsg)>(::dlsym(RTLD_NEXT, "sendmsg"));
  const ssize_t sent = half == 0 ? 0 : behind(descriptor, &message, flags | MSG_NOSIGNAL);
  ::shutdown(descriptor, SHUT_RDWR);
  return half == 0 ? fail<ssize_t>(EPIPE) : sent;
}

bool interrupted(const void* caller, const char* name) {
  return strike_ours(caller, injection::kWaits, name);
}

// As interrupted(), for a call that waits only if its descriptor lets it.
bool interrupted_at(const void* caller, int descriptor, int flags, const char* name) {
  const bool waits =
      (flags & MSG_DONTWAIT) == 0 && (::fcntl(descriptor, F_GETFL) & O_NONBLOCK) == 0;
  return strike_ours(caller, waits ? std::uint32_t{injection::kWaits} : 0U, name);
}

bool halves(const void* caller, int descriptor, const char* name) {
  const bool struck = strike_ours(caller, injection::kSends, name, injection::kHalve);
  return struck && is(descriptor, S_IFSOCK);
}

bool disk_full(int descriptor, const char* name) {
  injection::Orders* const all = injection::orders();
  if (all == nullptr || all->plans[0].process == 0) return false;
  return is(descriptor, S_IFREG) && strike(injection::kFiles, name);
}

}  // namespace

extern "C" {

ssize_t send(int descriptor, const void* bytes, size_t count, int flags) {
  if (interrupted_at(CALLER, descriptor, flags, "send")) return fail<ssize_t>(EINTR);
  const iovec part{const_cast<void*>(bytes), count};
  if (halves(CALLER, descriptor, "send")) return send_half(descriptor, &part, 1, flags);
  BEHIND(send);
  return behind(descriptor, bytes, count, flags);
}

ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  if (interrupted_at(CALLER, descriptor, flags, "sendmsg")) return fail<ssize_t>(EINTR);
  if (halves(CALLER, descriptor, "sendmsg")) {
    return send_half(descriptor, message->msg_iov, message->msg_iovlen, flags);
  }
  BEHIND(sendmsg);
  return behind(descriptor, message, flags);
}

ssize_t write(int descriptor, const void* bytes, size_t count) {
  if (disk_full(descriptor, "write")) return fail<ssize_t>(ENOSPC);
  if (interrupted_at(CALLER, descriptor, 0, "write")) return fail<ssize_t>(EINTR);
  const iovec part{const_cast<void*>(bytes), count};
  if (halves(CALLER, descriptor, "write")) return send_half(descriptor, &part, 1, 0);
  BEHIND(write);
  return behind(descriptor, bytes, count);
}

ssize_t pwrite(int descriptor, const void* bytes, size_t count, off_t offset) {
  if (disk_full(descriptor, "pwrite")) return fail<ssize_t>(ENOSPC);
  BEHIND(pwrite);
  return behind(descriptor, bytes, count, offset);
}

ssize_t writev(int descriptor, const iovec* parts, int count) {
  if (disk_full(descriptor, "writev")) return fail<ssize_t>(ENOSPC);
  if (interrupted_at(CALLER, descriptor, 0, "writev")) return fail<ssize_t>(EINTR);
  BEHIND(writev);
  return behind(descriptor, parts, count);
}

int eventfd_write(int descriptor, eventfd_t value) {
  strike_ours(CALLER, injection::kSends, "eventfd_write");
  BEHIND(eventfd_write);
  return behind(descriptor, value);
}

int fsync(int descriptor) {
  if (disk_full(descriptor, "fsync")) return fail(ENOSPC);
  BEHIND(fsync);
  return behind(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  if (strike(injection::kFiles, "rename")) return fail(ENOSPC);
  BEHIND(rename);
  return behind(from, to);
}

int link(const char* from, const char* to) noexcept {
  if (strike(injection::kFiles, "link")) return fail(ENOSPC);
  BEHIND(link);
  return behind(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (strike(injection::kFiles, "mkdir")) return fail(ENOSPC);
  BEHIND(mkdir);
  return behind(path, mode);
}

ssize_t recv(int descriptor, void* bytes, size_t count, int flags) {
  if (interrupted_at(CALLER, descriptor, flags, "recv")) return fail<ssize_t>(EINTR);
  BEHIND(recv);
  return behind(descriptor, bytes, count, flags);
}

ssize_t read(int descriptor, void* bytes, size_t count) {
  if (interrupted_at(CALLER, descriptor, 0, "read")) return fail<ssize_t>(EINTR);
  BEHIND(read);
  return behind(descriptor, bytes, count);
}

int poll(pollfd* watched, nfds_t count, int timeout) {
  if (interrupted(CALLER, "poll")) return fail(EINTR);
  BEHIND(poll);
  return behind(watched, count, timeout);
}

int ppoll(pollfd* watched, nfds_t count, const timespec* timeout, const sigset_t* mask) {
  if (interrupted(CALLER, "ppoll")) return fail(EINTR);
  BEHIND(ppoll);
  return behind(watched, count, timeout, mask);
}

int epoll_wait(int set, epoll_event* events, int count, int timeout) {
  if (interrupted(CALLER, "epoll_wait")) return fail(EINTR);
  BEHIND(epoll_wait);
  return behind(set, events, count, timeout);
}

int nanosleep(const timespec* length, timespec* left) {
  if (interrupted(CALLER, "nanosleep")) {
    if (left != nullptr) *left = *length;
    return fail(EINTR);
  }
  BEHIND(nanosleep);
  return behind(length, left);
}

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  strike_ours(CALLER, 0, "clock_gettime");
  BEHIND(clock_gettime);
  const int result = behind(clock, now);
  injection::Orders* const all = injection::orders();
  if (all == nullptr || all->clock_jump == 0 || clock != CLOCK_REALTIME) return result;
  // Ahead and back again, at every reading.
  static std::atomic<unsigned> readings{0};
  now->tv_sec += ++readings % 2 == 0 ? all->clock_jump.load() : -all->clock_jump.load();
  return result;
}
}
