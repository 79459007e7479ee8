// IP addresses as verbs has them: in sockets' structs, as text, and inside GIDs.
#pragma once

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <string>
#include <vector>

namespace farwrite::fabric::verbs {

// "10.9.0.1", "fe80::1%eth0".
std::string host_text(const sockaddr_storage& address);
// As a GID holds it: IPv4 is mapped into IPv6.
ibv_gid gid_of(const sockaddr_storage& address);
// Whatever their ports are.
bool same_host(const sockaddr_storage& a, const sockaddr_storage& b);
// Of a numeric host or a name; none if it is empty or nobody knows it.
std::vector<sockaddr_storage> addresses_of(const std::string& host);

}  // namespace farwrite::fabric::verbs
