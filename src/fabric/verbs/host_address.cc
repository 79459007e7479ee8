#include "fabric/verbs/host_address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <array>
#include <cstring>

namespace farwrite::fabric::verbs {
namespace {

const sockaddr_in& four(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in&>(address);
}

const sockaddr_in6& six(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in6&>(address);
}

}  // namespace

std::string host_text(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &four(address).sin_addr, text.data(), text.size());
    return text.data();
  }
  ::inet_ntop(AF_INET6, &six(address).sin6_addr, text.data(), text.size());
  std::array<char, IF_NAMESIZE> name{};
  const unsigned scope = six(address).sin6_scope_id;
  if (scope == 0 || ::if_indextoname(scope, name.data()) == nullptr) return text.data();
  return std::string(text.data()) + "%" + name.data();
}

ibv_gid gid_of(const sockaddr_storage& address) {
  ibv_gid gid{};
  if (address.ss_family == AF_INET) {
    gid.raw[10] = gid.raw[11] = 0xFF;
    std::memcpy(gid.raw + 12, &four(address).sin_addr, 4);
  } else {
    std::memcpy(gid.raw, &six(address).sin6_addr, 16);
  }
  return gid;
}

bool same_host(const sockaddr_storage& a, const sockaddr_storage& b) {
  return gid_of(a).global.subnet_prefix == gid_of(b).global.subnet_prefix &&
         gid_of(a).global.interface_id == gid_of(b).global.interface_id;
}

std::vector<sockaddr_storage> addresses_of(const std::string& host) {
  std::vector<sockaddr_storage> found;
  if (host.empty()) return found;
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* first = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &first) != 0) return found;
  for (const addrinfo* entry = first; entry != nullptr; entry = entry->ai_next) {
    sockaddr_storage address{};
    std::memcpy(&address, entry->ai_addr, entry->ai_addrlen);
    found.push_back(address);
  }
  ::freeaddrinfo(first);
  return found;
}

}  // namespace farwrite::fabric::verbs
