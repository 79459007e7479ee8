/// @file
/// Endpoint: the address of a device, `host:port`.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

#include "farwrite/internal/namespace.h"
#include "farwrite/status.h"

FARWRITE_BEGIN

/// Where a device listens. IPv6 hosts are written in brackets: "[::1]:7777".
struct Endpoint {
  std::string host = "127.0.0.1";  ///< a name or an address; IPv6 without brackets
  std::uint16_t port = 0;          ///< when listening, 0 requests a free port from the system

  /// Parses `text`. kInvalidArgument names the fault in `text` and shows a valid endpoint.
  static Result<Endpoint> parse(std::string_view text);
  /// `host:port`, as parse() reads it.
  std::string to_string() const;
};

namespace internal {
/// @private
inline Status malformed_endpoint(std::string_view text, std::string_view why) {
  return Status::error(StatusCode::kInvalidArgument, {"parse an endpoint"},
                       "\"" + std::string(text) + "\" " + std::string(why),
                       "write host:port, like 127.0.0.1:7777 or [::1]:7777");
}
}  // namespace internal

inline Result<Endpoint> Endpoint::parse(std::string_view text) {
  if (text.find("://") != std::string_view::npos) {
    return internal::malformed_endpoint(text, "begins with a scheme, and an endpoint has none");
  }
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return internal::malformed_endpoint(text, "has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return internal::malformed_endpoint(text, "has an IPv6 host without brackets");
  }
  if (host.empty()) return internal::malformed_endpoint(text, "has no host");
  Endpoint endpoint;
  endpoint.host = std::string(host);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    return internal::malformed_endpoint(text, "has no port from 0 to 65535");
  }
  return endpoint;
}

inline std::string Endpoint::to_string() const {
  const bool bracketed = host.find(':') != std::string::npos;
  return (bracketed ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

/// True if both have the same host text and the same port. No name is resolved.
inline bool operator==(const Endpoint& a, const Endpoint& b) {
  return a.host == b.host && a.port == b.port;
}

FARWRITE_END
