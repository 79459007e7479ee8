#include "fabric/shm/packet_socket.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "core/interrupt.h"
#include "core/left_at_fork.h"
#include "core/tcp_socket.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; Debian 12's headers are older
#endif

namespace farwrite::fabric::shm {
namespace {

socklen_t abstract_address(const std::string& name, sockaddr_un& address) {
  std::memset(&address, 0, sizeof(address));
  address.sun_family = AF_UNIX;
  const std::size_t length = std::min(name.size(), sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), length);  // the leading zero makes it abstract
  return static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
}

core::UniqueFd new_socket() {
  core::UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  core::leave_at_fork(socket.get());
  return socket;
}

Status wait_for_peer(int socket, short events, core::Deadline deadline,
                     std::string_view operation) {
  const core::PollOutcome outcome = core::poll_socket(socket, events, deadline);
  if (outcome.ready) return Status();
  if (outcome.error != 0) {
    return Status::system_error(StatusCode::kInternal, {operation, {}, "shm"}, "poll failed",
                                outcome.error, "report this");
  }
  return Status::error(StatusCode::kDeadlineExceeded, {operation, {}, "shm"},
                       "the peer did not answer in time",
                       "check that the peer is running and not stopped");
}

// A peer that lacks descriptors closes it without a word.
constexpr std::string_view kAgain = "see the peer's log for the reason, and connect again";

Status broken(std::string_view operation, int error_number) {
  return Status::system_error(StatusCode::kUnavailable, {operation, {}, "shm"},
                              "the peer's unix socket broke", error_number, kAgain);
}

Status closed(std::string_view operation) {
  return Status::error(StatusCode::kUnavailable, {operation, {}, "shm"},
                       "the peer closed its unix socket", kAgain);
}

void collect_fds(msghdr& message, Packet& packet) {
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      packet.fds.emplace_back(fd);
    }
  }
}

}  // namespace

Result<core::UniqueFd> listen_abstract(const std::string& name) {
  constexpr ErrorContext kWhere{"listen", {}, "shm"};
  core::UniqueFd socket = new_socket();
  sockaddr_un address;
  const socklen_t length = abstract_address(name, address);
  if (!socket.valid() || ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      ::listen(socket.get(), 64) != 0) {
    return Status::system_error(StatusCode::kUnavailable, kWhere, "no unix socket could be created",
                                errno, "raise the limit of open files");
  }
  return socket;
}

Result<core::UniqueFd> connect_abstract(const std::string& name, core::Deadline deadline) {
  constexpr std::chrono::milliseconds kListenerIsBusy(2);
  constexpr ErrorContext kWhere{"attach", {}, "shm"};
  core::UniqueFd socket = new_socket();
  sockaddr_un address;
  const socklen_t length = abstract_address(name, address);
  while (socket.valid() &&
         ::connect(socket.get(), reinterpret_cast<sockaddr*>(&address), length) != 0) {
    const bool later = errno == EAGAIN || errno == EINTR;
    if (later && !deadline.expired() && !core::Interrupt::ends_wait()) {
      std::this_thread::sleep_for(kListenerIsBusy);
      continue;
    }
    return Status::system_error(StatusCode::kUnavailable, kWhere,
                                "the peer's unix socket cannot be reached, so it is not on this "
                                "host (or in another network namespace)",
                                errno, "use a fabric that crosses hosts");
  }
  if (socket.valid()) return socket;
  return Status::system_error(StatusCode::kResourceExhausted, kWhere,
                              "no unix socket could be created", errno,
                              "raise the limit of open files (ulimit -n)");
}

Status send_packet(int socket, ByteView bytes, const std::vector<int>& fds, core::Deadline deadline,
                   std::string_view operation) {
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxPacketFds * sizeof(int))] = {};
  iovec piece{const_cast<std::byte*>(bytes.data), bytes.size};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size() * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(fds.size() * sizeof(int));
    std::memcpy(CMSG_DATA(part), fds.data(), fds.size() * sizeof(int));
  }
  while (::sendmsg(socket, &message, MSG_NOSIGNAL) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN) {
      FARWRITE_RETURN_IF_ERROR(wait_for_peer(socket, POLLOUT, deadline, operation));
      continue;
    }
    return broken(operation, errno);
  }
  return Status();
}

Result<std::vector<std::byte>> peek_packet(int socket, std::string_view operation) {
  std::vector<std::byte> bytes(kMaxPacketBytes);
  const ssize_t count = ::recv(socket, bytes.data(), bytes.size(), MSG_PEEK | MSG_DONTWAIT);
  if (count < 0 && errno != EAGAIN && errno != EINTR) return broken(operation, errno);
  if (count == 0) return closed(operation);
  bytes.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
  return bytes;
}

Status no_room_for_fds(std::string_view operation) {
  return Status::system_error(StatusCode::kResourceExhausted, {operation, {}, "shm"},
                              "no descriptor is left for memory of the peer", EMFILE,
                              "raise the limit of open files (ulimit -n)");
}

Result<Packet> receive_packet(int socket, core::Deadline deadline, std::string_view operation,
                              bool* fds_missing) {
  Packet packet;
  packet.bytes.resize(kMaxPacketBytes);
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxPacketFds * sizeof(int))];
  while (true) {
    iovec piece{packet.bytes.data(), packet.bytes.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    const ssize_t count = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) {
      FARWRITE_RETURN_IF_ERROR(wait_for_peer(socket, POLLIN, deadline, operation));
      continue;
    }
    if (count < 0) return broken(operation, errno);
    collect_fds(message, packet);
    if (count == 0) return closed(operation);
    // The kernel cuts them off likewise where the peer has sent too many, and where they are more
    // than this process may open.
    const bool cut = (message.msg_flags & MSG_CTRUNC) != 0;
    if ((message.msg_flags & MSG_TRUNC) != 0 || (cut && packet.fds.size() == kMaxPacketFds)) {
      return Status::error(StatusCode::kProtocolError, {operation, {}, "shm"},
                           "the peer sent an oversized packet",
                           "run the same release on both sides");
    }
    if (cut && fds_missing == nullptr) return no_room_for_fds(operation);
    if (fds_missing != nullptr) *fds_missing = cut;
    packet.bytes.resize(static_cast<std::size_t>(count));
    return packet;
  }
}

Status check_same_user(int socket) {
  constexpr ErrorContext kWhere{"attach", {}, "shm"};
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length) != 0) {
    return Status::system_error(StatusCode::kPermissionDenied, kWhere,
                                "the peer's user cannot be determined", errno, "report this");
  }
  if (credentials.uid != ::geteuid()) {
    return Status::error(StatusCode::kPermissionDenied, kWhere,
                         "the processes run as two users, " + std::to_string(credentials.uid) +
                             " and " + std::to_string(::geteuid()),
                         "run both as one user");
  }
  return Status();
}

pid_t peer_pid(int socket) {
  ucred credentials{};
  socklen_t length = sizeof(credentials);
  const int failed = ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &length);
  return failed != 0 ? 0 : credentials.pid;
}

Result<core::UniqueFd> peer_pidfd(int socket) {
  int fd = -1;
  socklen_t length = sizeof(fd);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &fd, &length) == 0) {
    return core::UniqueFd(fd);
  }
  // Before Linux 6.5. The socket is connected, so the process was alive a moment ago; should it
  // have died since and its number been given away, the socket's end still tells.
  const pid_t pid = peer_pid(socket);
  if (pid <= 0) return core::UniqueFd();
  core::UniqueFd opened(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!opened.valid() && (errno == EMFILE || errno == ENFILE)) {
    return Status::system_error(StatusCode::kResourceExhausted, {"attach", {}, "shm"},
                                "no descriptor is left to watch the peer's process", errno,
                                "raise the limit of open files (ulimit -n)");
  }
  return opened;
}

}  // namespace farwrite::fabric::shm
