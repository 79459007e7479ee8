#include "grpc/settings.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string>
#include <string_view>

namespace farwrite::grpc {
namespace {

std::string_view variable(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? std::string_view() : std::string_view(value);
}

bool is_on(const char* name) {
  const std::string_view value = variable(name);
  return !value.empty() && value != "0";
}

Status read_fabrics(std::vector<FabricKind>& fabrics) {
  std::string_view names = variable("FARWRITE_GRPC_FABRICS");
  if (names.empty()) return Status();
  fabrics.clear();
  while (!names.empty()) {
    const std::string_view name = names.substr(0, names.find(','));
    Result<FabricKind> kind = parse_fabric(name);
    if (!kind.ok()) return kind.status();
    fabrics.push_back(kind.value());
    names.remove_prefix(std::min(names.size(), name.size() + 1));
  }
  return Status();
}

Status read_spin(std::chrono::nanoseconds& spin) {
  const std::string_view text = variable("FARWRITE_GRPC_SPIN_US");
  if (text.empty()) return Status();
  std::uint32_t microseconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), microseconds);
  if (error != std::errc() || end != text.data() + text.size() || microseconds > 10'000) {
    return Status::error(StatusCode::kInvalidArgument, {.operation = "read FARWRITE_GRPC_SPIN_US"},
                         "'" + std::string(text) + "' is not a number from 0 to 10000",
                         "give the microseconds that a waiting thread polls before it sleeps");
  }
  spin = std::chrono::microseconds(microseconds);
  return Status();
}

}  // namespace

bool Settings::is_required() {
  static const bool required = is_on("FARWRITE_GRPC_REQUIRE");
  return required;
}

Result<Settings> Settings::from_environment() {
  Settings settings;
  // Memory is taken as messages need it: most processes of an RPC program send little.
  settings.device.prefault = false;
  // Over our tcp a message takes longer than over gRPC's own: only who names it gets it.
  settings.device.fabrics = {FabricKind::kShm, FabricKind::kVerbs};
  settings.device.name = "gRPC";
  settings.streams.polled = true;
  settings.streams.lend_from = 8192;
  // Servers hold whole messages, several at a time, and copy none of this many bytes.
  settings.streams.held = std::uint64_t{64} << 20;
  settings.streams.window = 2 * settings.streams.held;
  FARWRITE_RETURN_IF_ERROR(read_fabrics(settings.device.fabrics));
  FARWRITE_RETURN_IF_ERROR(read_spin(settings.spin));
  if (const std::string_view listen = variable("FARWRITE_GRPC_LISTEN"); !listen.empty()) {
    Result<Endpoint> endpoint = Endpoint::parse(listen);
    if (!endpoint.ok()) return endpoint.status();
    settings.device.listen = endpoint.value();
    settings.other_hosts = true;
  }
  if (is_on("FARWRITE_GRPC_ANY_PEER")) settings.device.token = Token::cookie_else_none();
  if (const std::string_view token = variable("FARWRITE_TOKEN"); !token.empty()) {
    settings.device.token = token == "none" ? Token::none() : Token(std::string(token));
  }
  if (is_on("FARWRITE_GRPC_COPY")) {
    // Everything goes in messages: one copy into the peer's ring, one out of it.
    settings.streams.window = std::uint64_t{1} << 60;
    settings.streams.lend_from = settings.streams.window;
    settings.streams.message_window = std::uint64_t{4} << 20;
  }
  return settings;
}

}  // namespace farwrite::grpc
