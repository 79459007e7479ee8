#include "core/tcp_socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/byte_stream.h"
#include "core/interrupt.h"
#include "core/left_at_fork.h"
#include "core/port_choice.h"

namespace farwrite::core {
namespace {

// getaddrinfo(3): a name without an address. glibc has a name for it, and other libraries have
// none.
#ifdef EAI_NODATA
constexpr int kNoAddress = EAI_NODATA;
#else
constexpr int kNoAddress = EAI_NONAME;
#endif

// Whether a host may have that name once it is there; digits and dots alone are an address.
bool may_be_a_name(std::string_view host) {
  const auto letter = [](unsigned char each) { return std::isalpha(each) != 0 || each > 127; };
  const auto fits = [&](unsigned char each) {
    return letter(each) || std::isdigit(each) != 0 || each == '-' || each == '.' || each == '_';
  };
  return std::ranges::any_of(host, letter) && std::ranges::all_of(host, fits);
}

using AddressList = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Result<AddressList> resolve(const Endpoint& endpoint, bool passive, std::string_view operation) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int failed =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  if (failed != 0) {
    const bool may_come = !passive && may_be_a_name(endpoint.host) &&
                          (failed == EAI_AGAIN || failed == EAI_NONAME || failed == kNoAddress);
    return Status::error(may_come ? StatusCode::kNotFound : StatusCode::kInvalidArgument,
                         {operation, endpoint.to_string()},
                         std::string("the host does not resolve: ") + ::gai_strerror(failed),
                         may_come ? "check the host's spelling and the name service, or start the "
                                    "host"
                                  : "check the host's spelling and the name service");
  }
  return AddressList(found, &::freeaddrinfo);
}

bool is_loopback(const sockaddr_storage& address) {
  constexpr std::uint32_t kNet = 127;
  if (address.ss_family == AF_INET) {
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == kNet;
  }
  if (address.ss_family != AF_INET6) return false;
  const in6_addr& six = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == kNet);
}

bool out_of_descriptors(int error_number) {
  return error_number == EMFILE || error_number == ENFILE;
}

Status no_descriptor(std::string_view operation, int error_number) {
  return Status::system_error(StatusCode::kResourceExhausted, {operation},
                              "no file descriptor left", error_number,
                              "raise the limit of open files (ulimit -n)");
}

std::string to_string(const PortRange& range) {
  return std::to_string(range.first) + "-" + std::to_string(range.last);
}

// Invalid, with the reason in errno. A port that is `known`, because the user named it, is taken
// even while connections of an earlier listener linger there. That takes SO_REUSEADDR on both
// listeners. Set before any other bind(2), it would also take a port that something has bound and
// does not listen on yet.
UniqueFd bind_and_listen(const addrinfo& address, std::uint16_t port, bool known) {
  sockaddr_storage at{};
  std::memcpy(&at, address.ai_addr, address.ai_addrlen);
  auto& wire_port = at.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(at).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(at).sin_port;
  wire_port = htons(port);
  UniqueFd socket(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const auto set_reuse = [&socket](int reuse) {
    return ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) == 0;
  };
  const bool listens =
      socket.valid() && set_reuse(known ? 1 : 0) &&
      ::bind(socket.get(), reinterpret_cast<sockaddr*>(&at), address.ai_addrlen) == 0 &&
      set_reuse(1) && ::listen(socket.get(), 128) == 0;
  if (listens) return socket;
  const int failed = errno;
  socket.reset();
  errno = failed;
  return socket;
}

}  // namespace

PollOutcome poll_socket(int socket, short events, Deadline deadline) {
  while (true) {
    pollfd entry{socket, events, 0};
    const int ready = ::poll(&entry, 1, deadline.earlier(Interrupt::turn()).poll_timeout_ms());
    if (ready > 0) return {.ready = true};
    if (ready < 0 && errno != EINTR) return {.error = errno};
    if (Interrupt::ends_wait() || deadline.expired()) return {};
  }
}

Status wait_for(int socket, short events, Deadline deadline, std::string_view operation) {
  const PollOutcome outcome = poll_socket(socket, events, deadline);
  if (outcome.ready) return Status();
  if (outcome.error != 0) {
    return Status::system_error(StatusCode::kInternal, {operation}, "poll failed", outcome.error,
                                "report this");
  }
  return Status::error(StatusCode::kDeadlineExceeded, {operation}, "the peer did not answer",
                       "check that the peer is running and not stopped, or allow more time");
}

Status connection_lost(std::string_view operation, int error_number) {
  if (error_number == 0) {
    return Status::error(StatusCode::kUnavailable, {operation}, "the peer closed the connection",
                         "see the peer's log for its reason");
  }
  return Status::system_error(StatusCode::kUnavailable, {operation}, "the connection broke",
                              error_number,
                              "check whether the peer is still running; if so, see the peer's log");
}

Result<Listener> listen_tcp(const Endpoint& endpoint, const PortRange& range) {
  constexpr std::string_view kOperation = "listen";
  if (range.first > range.last || (range.first == 0 && range.last != 0)) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation, endpoint.to_string()},
                         "the range of ports " + to_string(range) + " has no port",
                         "set port_range to its first and its last port, like 7000-7099");
  }
  const bool any = endpoint.port == 0;
  auto addresses = resolve(endpoint, /*passive=*/true, kOperation);
  if (!addresses.ok()) return addresses.status();
  const addrinfo& address = **addresses;
  Listener listener;
  for (const std::uint16_t port : any ? ports_to_try(range) : std::vector{endpoint.port}) {
    listener.socket = bind_and_listen(address, port, /*known=*/!any);
    if (listener.socket.valid() || errno != EADDRINUSE) break;
  }
  if (!listener.socket.valid()) {
    const int failed = errno;
    if (out_of_descriptors(failed)) return no_descriptor(kOperation, failed);
    const bool taken = failed == EADDRINUSE;
    if (taken && any && range != PortRange()) {
      return Status::error(StatusCode::kAlreadyExists, {kOperation, endpoint.to_string()},
                           "other sockets have all the ports " + to_string(range),
                           "make port_range larger, or end a program that has one of them");
    }
    return Status::system_error(
        taken ? StatusCode::kAlreadyExists : StatusCode::kUnavailable,
        {kOperation, endpoint.to_string()},
        taken ? "another socket already listens there" : "this host cannot listen on the address",
        failed,
        taken ? "choose another port, or 0 for a free one"
              : "choose an address of this host (FARWRITE_LISTEN)");
  }
  leave_at_fork(listener.socket.get());
  sockaddr_storage bound{};
  socklen_t length = sizeof(bound);
  ::getsockname(listener.socket.get(), reinterpret_cast<sockaddr*>(&bound), &length);
  listener.endpoint.host = endpoint.host;
  listener.endpoint.port =
      ntohs(bound.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(bound).sin6_port
                                        : reinterpret_cast<sockaddr_in&>(bound).sin_port);
  return listener;
}

Result<UniqueFd> connect_tcp(const Endpoint& endpoint, Deadline deadline) {
  constexpr std::string_view kOperation = "connect";
  auto addresses = resolve(endpoint, /*passive=*/false, kOperation);
  if (!addresses.ok()) return addresses.status();
  int last_error = 0;
  for (const addrinfo* address = addresses->get(); address != nullptr; address = address->ai_next) {
    UniqueFd socket(::socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.valid()) {
      last_error = errno;
      if (out_of_descriptors(last_error)) return no_descriptor(kOperation, last_error);
      continue;
    }
    if (::connect(socket.get(), address->ai_addr, address->ai_addrlen) != 0) {
      last_error = errno;
      if (last_error != EINPROGRESS) continue;
      FARWRITE_RETURN_IF_ERROR(
          wait_for(socket.get(), POLLOUT, deadline, "connect to " + endpoint.to_string()));
      socklen_t length = sizeof(last_error);
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &last_error, &length);
      if (last_error != 0) continue;
    }
    set_no_delay(socket.get());
    leave_at_fork(socket.get());
    return socket;
  }
  return Status::system_error(StatusCode::kUnavailable, {kOperation, endpoint.to_string()},
                              "the connection failed", last_error,
                              "start the peer first, and check its address and port");
}

Status send_all(int socket, ByteView bytes, Deadline deadline, std::string_view operation) {
  PlainView stream(socket);
  return send_all(stream, bytes, deadline, operation);
}

Status receive_all(int socket, MutableByteView bytes, Deadline deadline,
                   std::string_view operation) {
  PlainView stream(socket);
  return receive_all(stream, bytes, deadline, operation);
}

bool has_input(int socket) {
  pollfd entry{socket, POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

void set_no_delay(int socket) {
  const int one = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

bool connected_to_loopback(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  return ::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
         is_loopback(address);
}

bool accepts_on_loopback(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  return ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &length) == 0 &&
         is_loopback(address);
}

std::string peer_host(int socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  std::array<char, NI_MAXHOST> host{};
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &length) != 0 ||
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), length, host.data(), host.size(),
                    nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return host.data();
}

void set_keepalive(int socket, std::chrono::nanoseconds timeout) {
  constexpr int kProbes = 5;
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout).count();
  const int idle = static_cast<int>(std::clamp<std::int64_t>(seconds / 2, 1, 32767));
  const int interval = static_cast<int>(std::clamp<std::int64_t>(seconds / 2 / kProbes, 1, 32767));
  const int one = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
  ::setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &kProbes, sizeof(kProbes));
}

void set_send_timeout(int socket, std::chrono::nanoseconds timeout) {
  const auto milliseconds = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  const auto bounded = static_cast<unsigned>(
      std::clamp<std::int64_t>(milliseconds, 1, std::numeric_limits<int>::max()));
  ::setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &bounded, sizeof(bounded));
}

}  // namespace farwrite::core
