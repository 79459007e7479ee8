// GrpcTally: counts the tensors that gRPC still brings to this server, and those it is asked for,
// call by call: feeds and fetches of sessions, inputs of eager operations.
#pragma once

#include "grpcpp/server_builder.h"

namespace farwrite::plugin {

// Before the server is built. Looks at messages; changes nothing.
void install_grpc_tally(::grpc::ServerBuilder* builder);

}  // namespace farwrite::plugin
