/// @file
/// Endpoint: the address of a device, `host:port`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "farwrite/export.h"
#include "farwrite/status.h"

namespace farwrite {

/// Where a device listens. IPv6 hosts are written in brackets: "[::1]:7777".
struct FARWRITE_API Endpoint {
  std::string host = "127.0.0.1";  ///< a name or an address; IPv6 without brackets
  std::uint16_t port = 0;          ///< when listening, 0 requests a free port from the system

  /// Parses `text`. kInvalidArgument names the fault in `text` and shows a valid endpoint.
  static Result<Endpoint> parse(std::string_view text);
  /// `host:port`, as parse() reads it.
  std::string to_string() const;
};

/// True if both have the same host text and the same port. No name is resolved.
inline bool operator==(const Endpoint& a, const Endpoint& b) {
  return a.host == b.host && a.port == b.port;
}

}  // namespace farwrite
