// Calls that make descriptors, and threads.
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "strike.h"

namespace {

using injection::fail;

bool no_descriptor(const char* name) { return injection::strike(injection::kDescriptors, name); }

bool makes_file(int flags) { return (flags & O_CREAT) != 0 || (flags & O_TMPFILE) == O_TMPFILE; }

bool may_write(int flags) { return (flags & O_ACCMODE) != O_RDONLY; }

// What a full disk, or a full table of descriptors, makes of open(2); 0 if nothing.
int refused_open(int flags) {
  if (no_descriptor("open")) return EMFILE;
  if (may_write(flags) && injection::strike(injection::kFiles, "open")) return ENOSPC;
  return 0;
}

}  // namespace

extern "C" {

#define OPEN_WITH(name, ...)                                                          \
  va_list rest;                                                                       \
  va_start(rest, flags);                                                              \
  const mode_t mode = makes_file(flags) ? static_cast<mode_t>(va_arg(rest, int)) : 0; \
  va_end(rest);                                                                       \
  if (const int error = refused_open(flags); error != 0) return fail(error);          \
  BEHIND(name);                                                                       \
  return behind(__VA_ARGS__, flags, mode)

int open(const char* path, int flags, ...) { OPEN_WITH(open, path); }
int open64(const char* path, int flags, ...) { OPEN_WITH(open64, path); }
int openat(int folder, const char* path, int flags, ...) { OPEN_WITH(openat, folder, path); }
int openat64(int folder, const char* path, int flags, ...) { OPEN_WITH(openat64, folder, path); }

FILE* fopen(const char* path, const char* mode) {
  if (no_descriptor("fopen")) return fail<FILE*>(EMFILE, nullptr);
  BEHIND(fopen);
  return behind(path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  if (no_descriptor("fopen")) return fail<FILE*>(EMFILE, nullptr);
  BEHIND(fopen64);
  return behind(path, mode);
}

DIR* opendir(const char* path) {
  if (no_descriptor("opendir")) return fail<DIR*>(EMFILE, nullptr);
  BEHIND(opendir);
  return behind(path);
}

int socket(int domain, int type, int protocol) noexcept {
  if (no_descriptor("socket")) return fail(EMFILE);
  BEHIND(socket);
  return behind(domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int pair[2]) noexcept {
  if (no_descriptor("socketpair")) return fail(EMFILE);
  BEHIND(socketpair);
  return behind(domain, type, protocol, pair);
}

int accept(int listener, sockaddr* address, socklen_t* length) {
  if (no_descriptor("accept")) return fail(EMFILE);
  BEHIND(accept);
  return behind(listener, address, length);
}

int accept4(int listener, sockaddr* address, socklen_t* length, int flags) {
  if (no_descriptor("accept4")) return fail(EMFILE);
  BEHIND(accept4);
  return behind(listener, address, length, flags);
}

int pipe(int ends[2]) noexcept {
  if (no_descriptor("pipe")) return fail(EMFILE);
  BEHIND(pipe);
  return behind(ends);
}

int pipe2(int ends[2], int flags) noexcept {
  if (no_descriptor("pipe2")) return fail(EMFILE);
  BEHIND(pipe2);
  return behind(ends, flags);
}

int memfd_create(const char* name, unsigned flags) noexcept {
  if (no_descriptor("memfd_create")) return fail(EMFILE);
  BEHIND(memfd_create);
  return behind(name, flags);
}

int eventfd(unsigned value, int flags) noexcept {
  if (no_descriptor("eventfd")) return fail(EMFILE);
  BEHIND(eventfd);
  return behind(value, flags);
}

int epoll_create1(int flags) noexcept {
  if (no_descriptor("epoll_create1")) return fail(EMFILE);
  BEHIND(epoll_create1);
  return behind(flags);
}

int dup(int descriptor) noexcept {
  if (no_descriptor("dup")) return fail(EMFILE);
  BEHIND(dup);
  return behind(descriptor);
}

int dup3(int descriptor, int as, int flags) noexcept {
  if (no_descriptor("dup3")) return fail(EMFILE);
  BEHIND(dup3);
  return behind(descriptor, as, flags);
}

#define FCNTL_WITH(name)                                               \
  va_list rest;                                                        \
  va_start(rest, command);                                             \
  const long argument = va_arg(rest, long);                            \
  va_end(rest);                                                        \
  const bool makes = command == F_DUPFD || command == F_DUPFD_CLOEXEC; \
  if (makes && no_descriptor("fcntl")) return fail(EMFILE);            \
  BEHIND(name);                                                        \
  return behind(descriptor, command, argument)

int fcntl(int descriptor, int command, ...) { FCNTL_WITH(fcntl); }
int fcntl64(int descriptor, int command, ...) { FCNTL_WITH(fcntl64); }

long syscall(long number, ...) noexcept {
  va_list rest;
  va_start(rest, number);
  std::array<long, 6> given{};
  for (long& each : given) each = va_arg(rest, long);
  va_end(rest);
  const bool makes = number == SYS_pidfd_open || number == SYS_pidfd_getfd;
  if (makes && no_descriptor("pidfd_open")) return fail<long>(EMFILE);
  BEHIND(syscall);
  return behind(number, given[0], given[1], given[2], given[3], given[4], given[5]);
}

// A process without a free descriptor gets the message, and not what came with it.
ssize_t recvmsg(int descriptor, msghdr* message, int flags) {
  const bool waits = (flags & MSG_DONTWAIT) == 0;
  if (waits && injection::strike_ours(CALLER, injection::kWaits, "recvmsg")) {
    return fail<ssize_t>(EINTR);
  }
  BEHIND(recvmsg);
  const ssize_t count = behind(descriptor, message, flags);
  cmsghdr* const control = count < 0 ? nullptr : CMSG_FIRSTHDR(message);
  const bool brings =
      control != nullptr && control->cmsg_level == SOL_SOCKET && control->cmsg_type == SCM_RIGHTS;
  if (!brings || !no_descriptor("recvmsg")) return count;
  const std::size_t bytes = control->cmsg_len - CMSG_LEN(0);
  for (std::size_t at = 0; at < bytes; at += sizeof(int)) {
    int received = -1;
    std::memcpy(&received, CMSG_DATA(control) + at, sizeof received);
    ::close(received);
  }
  message->msg_controllen = 0;
  message->msg_flags |= MSG_CTRUNC;
  return count;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  if (injection::strike(injection::kThreads, "pthread_create")) return EAGAIN;
  if (injection::strike_ours(CALLER, injection::kOwnThreads, "pthread_create")) return EAGAIN;
  BEHIND(pthread_create);
  return behind(thread, attributes, start, argument);
}
}
