// Pull: one tensor by RecvTensor, as stock asks for it.
//
// It may lose against a push of the same tensor. It is then left alone: to cancel a RecvTensor call
// aborts the step at the sender. So it needs nothing of the step that began it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "core/mutex.h"
#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/distributed_runtime/tensor_coding.h"
#include "tensorflow/core/distributed_runtime/worker_cache.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::plugin {

class Pull : public std::enable_shared_from_this<Pull> {
 public:
  using Cache = std::shared_ptr<tensorflow::WorkerCacheInterface>;
  // Once, on a thread of gRPC's, or in begin() if there is no such task.
  using Done = std::function<void(const absl::Status& status, const tensorflow::Tensor& tensor,
                                  bool is_dead)>;

  // `device`: of this task, which the tensor is for.
  Pull(Cache cache, tensorflow::DeviceBase* device,
       const tensorflow::AllocatorAttributes& attributes, std::int64_t step,
       const tensorflow::RendezvousInterface::ParsedKey& key, Done done);

  void begin();
  // For an aborted step.
  void cancel();

 private:
  const Cache cache_;
  std::string task_;
  tensorflow::WorkerInterface* worker_ = nullptr;
  Done done_;
  tensorflow::CallOptions options_;
  tensorflow::RecvTensorRequest request_;
  tensorflow::TensorResponse response_;
  core::Mutex mutex_{core::LockRank::kProgram};
  bool began_ FW_GUARDED_BY(mutex_) = false;
  bool cancelled_ FW_GUARDED_BY(mutex_) = false;
};

}  // namespace farwrite::plugin
