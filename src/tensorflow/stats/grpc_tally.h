// GrpcTally: counts the tensors that gRPC still brings to this server, and those it is asked for,
// call by call: feeds and fetches of sessions, inputs of eager operations.
#pragma once

#include <memory>

#include "grpcpp/support/server_interceptor.h"

namespace farwrite::plugin {

// For the server's builder. The interceptors look at messages and change nothing.
std::unique_ptr<::grpc::experimental::ServerInterceptorFactoryInterface> grpc_tally();

}  // namespace farwrite::plugin
