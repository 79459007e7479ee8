// The service of TensorFlow 2's eager contexts that a server has: where its gRPC calls end, too, so
// that a context is one and the same whichever way a call came.
#pragma once

#include <cstdint>

#include "tensorflow/core/distributed_runtime/eager/eager_service_impl.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_server_lib.h"

namespace farwrite::plugin {

// Owned by `server`; once it is initialized.
tensorflow::eager::EagerServiceImpl* eager_service_of(tensorflow::GrpcServer& server);

// The collectives of the context go by `manager`, which TensorFlow leaves to its owner. Nothing
// happens if the service has no such context.
void set_collectives(tensorflow::eager::EagerServiceImpl& service, std::uint64_t context,
                     tensorflow::CollectiveExecutorMgrInterface* manager);

}  // namespace farwrite::plugin
