#include "verbs_double/network.h"

#include <arpa/inet.h>

#include <cstring>

namespace farwrite::verbs_double {

std::optional<sockaddr_storage> parse_address(const std::string& text) {
  sockaddr_storage address{};
  auto& four = reinterpret_cast<sockaddr_in&>(address);
  auto& six = reinterpret_cast<sockaddr_in6&>(address);
  if (::inet_pton(AF_INET, text.c_str(), &four.sin_addr) == 1) {
    address.ss_family = AF_INET;
    return address;
  }
  if (::inet_pton(AF_INET6, text.c_str(), &six.sin6_addr) == 1) {
    address.ss_family = AF_INET6;
    return address;
  }
  return std::nullopt;
}

bool same_host(const sockaddr& one, const sockaddr& other) {
  if (one.sa_family != other.sa_family) return false;
  if (one.sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(one).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(other).sin_addr.s_addr;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(one).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(other).sin6_addr,
                     sizeof(in6_addr)) == 0;
}

bool is_any(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr == htonl(INADDR_ANY);
  }
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

std::uint16_t port_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in&>(address).sin_port);
  }
  if (address.sa_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6&>(address).sin6_port);
  }
  return 0;
}

void set_port(sockaddr* address, std::uint16_t port) {
  if (address->sa_family == AF_INET) {
    reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
  } else if (address->sa_family == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(address)->sin6_port = htons(port);
  }
}

sockaddr_storage stored(const sockaddr& address) {
  sockaddr_storage copy{};
  if (address.sa_family == AF_INET) {
    std::memcpy(&copy, &address, sizeof(sockaddr_in));
  } else if (address.sa_family == AF_INET6) {
    std::memcpy(&copy, &address, sizeof(sockaddr_in6));
  }
  return copy;
}

}  // namespace farwrite::verbs_double
