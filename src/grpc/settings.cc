#include "grpc/settings.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "core/option_table.h"

namespace farwrite::grpc {

bool Settings::is_required() {
  static const bool required = [] {
    bool on = true;  // if the text cannot be read, which from_environment() reports
    (void)core::read_variable("FARWRITE_GRPC_REQUIRE", &on);
    return on;
  }();
  return required;
}

Result<Settings> Settings::from_environment() {
  Settings settings;
  // Memory is taken as messages need it: most processes of an RPC program send little.
  settings.device.prefault = false;
  settings.device.name = "gRPC";
  settings.streams.polled = true;
  settings.streams.lend_from = 8192;
  // Servers hold whole messages, several at a time, and copy none of this many bytes.
  settings.streams.held = std::uint64_t{64} << 20;
  settings.streams.window = 2 * settings.streams.held;
  std::uint32_t spin_us = 0;
  bool any_peer = false;
  bool copy = false;
  bool required = false;
  for (const auto& [variable, field] : {
           std::pair<std::string_view, core::OptionField>{"FARWRITE_GRPC_FABRICS",
                                                          &settings.device.fabrics},
           {"FARWRITE_GRPC_LISTEN", &settings.device.listen},
           {"FARWRITE_GRPC_SPIN_US", &spin_us},
           {"FARWRITE_GRPC_ANY_PEER", &any_peer},
           {"FARWRITE_GRPC_COPY", &copy},
           {"FARWRITE_GRPC_REQUIRE", &required},
       }) {
    FARWRITE_RETURN_IF_ERROR(core::read_variable(variable, field));
  }
  settings.spin = std::chrono::microseconds(spin_us);
  const char* const listen = std::getenv("FARWRITE_GRPC_LISTEN");
  settings.other_hosts = listen != nullptr && *listen != '\0';
  if (any_peer) settings.device.token = Token::cookie_else_none();
  FARWRITE_RETURN_IF_ERROR(core::read_environment(core::kInGrpc, settings.device));  // the token
  if (copy) {
    // Everything goes in messages: one copy into the peer's ring, one out of it.
    settings.streams.window = std::uint64_t{1} << 60;
    settings.streams.lend_from = settings.streams.window;
    settings.streams.message_window = std::uint64_t{4} << 20;
  }
  return settings;
}

}  // namespace farwrite::grpc
