#include "farwrite/endpoint.h"

#include <charconv>

namespace farwrite {
namespace {

Status malformed(std::string_view text, std::string_view why) {
  return Status::error(StatusCode::kInvalidArgument, {"parse an endpoint"},
                       "\"" + std::string(text) + "\" " + std::string(why),
                       "write host:port, like 127.0.0.1:7777 or [::1]:7777");
}

}  // namespace

Result<Endpoint> Endpoint::parse(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return malformed(text, "has no port");
  std::string_view host = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  if (host.size() >= 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  } else if (host.find(':') != std::string_view::npos) {
    return malformed(text, "has an IPv6 host without brackets");
  }
  if (host.empty()) return malformed(text, "has no host");
  Endpoint endpoint;
  endpoint.host = std::string(host);
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), endpoint.port);
  if (error != std::errc() || end != port.data() + port.size()) {
    return malformed(text, "has no port from 0 to 65535");
  }
  return endpoint;
}

std::string Endpoint::to_string() const {
  const bool bracketed = host.find(':') != std::string::npos;
  return (bracketed ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

}  // namespace farwrite
