// Worker: TensorFlow's gRPC worker, which also answers meetings and questions about routes.
#pragma once

#include "peer/peers.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_worker_service.h"

namespace farwrite::plugin {

class Worker final : public tensorflow::GrpcWorker {
 public:
  Worker(tensorflow::WorkerEnv* env, const tensorflow::ConfigProto& config, Peers& peers)
      : tensorflow::GrpcWorker(env, config), peers_(peers) {}

  void RecvBufAsync(tensorflow::CallOptions* options, const tensorflow::RecvBufRequest* request,
                    tensorflow::RecvBufResponse* response,
                    tensorflow::StatusCallback done) override;

 private:
  Peers& peers_;
};

}  // namespace farwrite::plugin
