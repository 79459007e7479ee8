#include "core/port_choice.h"

#include <algorithm>
#include <cctype>
#include <fstream>
#include <sstream>

#include "core/sha256.h"

namespace farwrite::core {
namespace {

// With more of them taken, the kernel's choice is as good.
constexpr std::uint32_t kMostTries = 64;

std::string line_of(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

}  // namespace

std::vector<std::uint16_t> ports_to_try(const std::string& ephemeral, const std::string& reserved,
                                        std::uint32_t start) {
  std::istringstream text(ephemeral);
  std::uint32_t low = 0, high = 0;
  text >> low >> high;
  // Reserved ports are kept for other programs: the kernel knows best.
  const bool any_reserved = std::any_of(reserved.begin(), reserved.end(),
                                        [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!text || low == 0 || high > 65535 || low > high || any_reserved) return {0};
  // connect(2) prefers ports at an even distance from `low`, and bind(2) the others.
  const std::uint32_t pairs = (high - low + 1) / 2;
  const std::uint32_t upper = pairs - pairs / 2;  // in the upper half of the range
  std::vector<std::uint16_t> ports;
  for (std::uint32_t i = 0; i < std::min(upper, kMostTries); ++i) {
    ports.push_back(
        static_cast<std::uint16_t>(low + 2 * (pairs / 2 + (start % upper + i) % upper)));
  }
  ports.push_back(0);
  return ports;
}

std::vector<std::uint16_t> ports_to_try(const PortRange& range) {
  if (range != PortRange()) {
    std::vector<std::uint16_t> ports;
    for (std::uint32_t port = range.first; port <= range.last; ++port) {
      ports.push_back(static_cast<std::uint16_t>(port));
    }
    return ports;
  }
  std::uint32_t start = 0;
  random_bytes({reinterpret_cast<std::byte*>(&start), sizeof(start)});
  return ports_to_try(line_of("/proc/sys/net/ipv4/ip_local_port_range"),
                      line_of("/proc/sys/net/ipv4/ip_local_reserved_ports"), start);
}

}  // namespace farwrite::core
