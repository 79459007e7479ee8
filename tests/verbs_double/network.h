// Network: what joins software RNICs of one process: addresses, listeners, and the gate that stops
// the adapters.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

namespace farwrite::verbs_double {

struct Adapter;
struct CmId;

struct Network {
  // Held by every adapter for a turn, exclusively by who wants them all to stand still.
  std::shared_mutex gate;
  std::atomic<std::uint32_t> next_pair{17};

  std::mutex lock;
  // All of the connection managers' state is under `lock`.
  std::vector<Adapter*> adapters;
  std::map<CmId*, std::shared_ptr<CmId>> ids;
  std::uint16_t next_port = 40000;
};

// The address without its port. Unset if the text is none.
std::optional<sockaddr_storage> parse_address(const std::string& text);
bool same_host(const sockaddr& one, const sockaddr& other);
bool is_any(const sockaddr& address);
std::uint16_t port_of(const sockaddr& address);
void set_port(sockaddr* address, std::uint16_t port);
// The address as a struct that holds any.
sockaddr_storage stored(const sockaddr& address);

}  // namespace farwrite::verbs_double
