// Settings: what the environment says about gRPC over Farwrite. docs/how-to/grpc.md lists the
// variables.
#pragma once

#include <chrono>

#include "farwrite/options.h"
#include "farwrite/status.h"
#include "farwrite/stream.h"

namespace farwrite::grpc {

struct Settings {
  DeviceOptions device;
  stream::Options streams;
  bool other_hosts = false;          // FARWRITE_GRPC_LISTEN names an address that they reach
  std::chrono::nanoseconds spin{0};  // FARWRITE_GRPC_SPIN_US

  // kInvalidArgument names the variable.
  static Result<Settings> from_environment();
  // FARWRITE_GRPC_REQUIRE: a connection that stays on TCP fails. As it was when first asked for.
  static bool is_required();
};

}  // namespace farwrite::grpc
