// ContextWatch: reports every eager context that a client has asked a server for, before the client
// gets the answer.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "grpcpp/support/server_interceptor.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace farwrite::plugin {

// A context of this id was made with this configuration, or could not be made.
using ContextAnswered =
    std::function<void(std::uint64_t context, const tensorflow::ConfigProto& config)>;

// For the server's builder. `answered` is called on the threads that answer.
std::unique_ptr<::grpc::experimental::ServerInterceptorFactoryInterface> context_watch(
    ContextAnswered answered);

}  // namespace farwrite::plugin
