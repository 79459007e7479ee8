// A port of the loopback on which nothing listens, and which no other program gets by chance while
// this lives. A socket with SO_REUSEADDR, as Farwrite's own have, may listen on it.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "core/unique_fd.h"
#include "farwrite/endpoint.h"

namespace farwrite {

class ReservedPort {
 public:
  // Port 0: any. If `port` is taken, endpoint().port is 0.
  explicit ReservedPort(std::uint16_t port = 0)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const int on = 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_.get(), generic, length) != 0) return;
    if (::getsockname(socket_.get(), generic, &length) != 0) return;
    endpoint_.port = ntohs(address.sin_port);
  }

  const Endpoint& endpoint() const { return endpoint_; }

 private:
  core::UniqueFd socket_;
  Endpoint endpoint_{"127.0.0.1", 0};
};

}  // namespace farwrite
