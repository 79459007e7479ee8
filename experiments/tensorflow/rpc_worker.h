// The workers of rpc-over-fabric: a task's own, which finds tensors for other tasks, and those of
// other tasks, from which tensors are requested over the fabric.
#pragma once

#include <memory>
#include <string>

#include "rpc_node.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_worker_service.h"
#include "tensorflow/core/distributed_runtime/worker_cache_wrapper.h"
#include "tensorflow/core/distributed_runtime/worker_interface.h"

namespace farwrite::experiments {

// TensorFlow's own worker.
class RpcWorker final : public tensorflow::GrpcWorker {
 public:
  using tensorflow::GrpcWorker::GrpcWorker;

  // As GrpcRecvTensorAsync(), without its encoding.
  void find_tensor(tensorflow::CallOptions* options, const tensorflow::RecvTensorRequest& request,
                   RpcService::Reply reply);

  // Counts.
  void GrpcRecvTensorAsync(tensorflow::CallOptions* options,
                           const tensorflow::RecvTensorRequest* request,
                           ::grpc::ByteBuffer* response, tensorflow::StatusCallback done) override;
};

// A server's or a session's workers: gRPC's, apart from RecvTensor.
class RpcWorkerCache final : public tensorflow::WorkerCacheWrapper {
 public:
  RpcWorkerCache(tensorflow::WorkerCacheInterface* stock, RpcNode* node)
      : tensorflow::WorkerCacheWrapper(stock), stock_(stock), node_(node) {}

  tensorflow::WorkerInterface* GetOrCreateWorker(const std::string& target) override;
  void ReleaseWorker(const std::string& target, tensorflow::WorkerInterface* worker) override;

 private:
  const std::unique_ptr<tensorflow::WorkerCacheInterface> stock_;
  RpcNode* const node_;
};

}  // namespace farwrite::experiments
