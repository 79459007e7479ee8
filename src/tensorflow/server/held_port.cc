#include "server/held_port.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

namespace farwrite::plugin {
namespace {

// A socket that shares its address with gRPC's, bound to the port; -1 if there is none.
int bound(const sockaddr* address, socklen_t size) {
  const int socket = ::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return -1;
  const int on = 1;
  const int off = 0;  // of IPv6: both versions
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  if (address->sa_family == AF_INET6) {
    ::setsockopt(socket, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  }
  if (::bind(socket, address, size) == 0) return socket;
  ::close(socket);
  return -1;
}

}  // namespace

HeldPort::HeldPort(int port) {
  if (port <= 0) return;
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_any;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  socket_ = bound(reinterpret_cast<const sockaddr*>(&six), sizeof(six));
  if (socket_ >= 0) return;
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_ANY);
  four.sin_port = six.sin6_port;
  socket_ = bound(reinterpret_cast<const sockaddr*>(&four), sizeof(four));
}

HeldPort::~HeldPort() {
  if (socket_ >= 0) ::close(socket_);
}

}  // namespace farwrite::plugin
