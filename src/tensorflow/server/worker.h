// Worker: TensorFlow's gRPC worker, which also answers meetings and questions about routes.
#pragma once

#include "tensorflow/core/distributed_runtime/rpc/grpc_worker_service.h"

namespace farwrite::plugin {

class Runtime;

class Worker final : public tensorflow::GrpcWorker {
 public:
  Worker(tensorflow::WorkerEnv* env, const tensorflow::ConfigProto& config, Runtime* runtime)
      : tensorflow::GrpcWorker(env, config), runtime_(runtime) {}

  void RecvBufAsync(tensorflow::CallOptions* options, const tensorflow::RecvBufRequest* request,
                    tensorflow::RecvBufResponse* response,
                    tensorflow::StatusCallback done) override;

 private:
  Runtime* const runtime_;
};

}  // namespace farwrite::plugin
