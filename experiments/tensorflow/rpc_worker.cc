#include "rpc_worker.h"

#include <utility>

#include "rpc_counters.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/distributed_runtime/rendezvous_mgr_interface.h"
#include "tensorflow/core/distributed_runtime/worker_env.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/platform/logging.h"

namespace farwrite::experiments {
namespace {

namespace tf = ::tensorflow;

// A worker of another task: all calls go to gRPC's, except RecvTensor.
class RemoteWorker final : public tf::WorkerInterface {
 public:
  // `stock` is the cache's worker of this task, for as long as this one lives.
  RemoteWorker(RpcNode* node, std::string task, tf::WorkerInterface* stock,
               tf::WorkerCacheInterface* cache)
      : node_(node), task_(std::move(task)), stock_(stock), cache_(cache) {}

  void RecvTensorAsync(tf::CallOptions* options, const tf::RecvTensorRequest* request,
                       tf::TensorResponse* response, tf::StatusCallback done) override {
    node_->receive(task_, options, *request, response, std::move(done));
  }

  void GetStatusAsync(tf::CallOptions* options, const tf::GetStatusRequest* request,
                      tf::GetStatusResponse* response, bool fail_fast,
                      tf::StatusCallback done) override {
    stock_->GetStatusAsync(options, request, response, fail_fast, std::move(done));
  }
  void CreateWorkerSessionAsync(const tf::CreateWorkerSessionRequest* request,
                                tf::CreateWorkerSessionResponse* response,
                                tf::StatusCallback done) override {
    stock_->CreateWorkerSessionAsync(request, response, std::move(done));
  }
  void DeleteWorkerSessionAsync(tf::CallOptions* options,
                                const tf::DeleteWorkerSessionRequest* request,
                                tf::DeleteWorkerSessionResponse* response,
                                tf::StatusCallback done) override {
    stock_->DeleteWorkerSessionAsync(options, request, response, std::move(done));
  }
  void RegisterGraphAsync(const tf::RegisterGraphRequest* request,
                          tf::RegisterGraphResponse* response, tf::StatusCallback done) override {
    stock_->RegisterGraphAsync(request, response, std::move(done));
  }
  void DeregisterGraphAsync(const tf::DeregisterGraphRequest* request,
                            tf::DeregisterGraphResponse* response,
                            tf::StatusCallback done) override {
    stock_->DeregisterGraphAsync(request, response, std::move(done));
  }
  void RunGraphAsync(tf::CallOptions* options, tf::RunGraphRequestWrapper* request,
                     tf::MutableRunGraphResponseWrapper* response,
                     tf::StatusCallback done) override {
    stock_->RunGraphAsync(options, request, response, std::move(done));
  }
  void RunGraphAsync(tf::CallOptions* options, const tf::RunGraphRequest* request,
                     tf::RunGraphResponse* response, tf::StatusCallback done) override {
    stock_->RunGraphAsync(options, request, response, std::move(done));
  }
  tf::MutableRunGraphRequestWrapper* CreateRunGraphRequest() override {
    return stock_->CreateRunGraphRequest();
  }
  tf::MutableRunGraphResponseWrapper* CreateRunGraphResponse() override {
    return stock_->CreateRunGraphResponse();
  }
  void CleanupGraphAsync(const tf::CleanupGraphRequest* request, tf::CleanupGraphResponse* response,
                         tf::StatusCallback done) override {
    stock_->CleanupGraphAsync(request, response, std::move(done));
  }
  void CleanupAllAsync(const tf::CleanupAllRequest* request, tf::CleanupAllResponse* response,
                       tf::StatusCallback done) override {
    stock_->CleanupAllAsync(request, response, std::move(done));
  }
  void LoggingAsync(const tf::LoggingRequest* request, tf::LoggingResponse* response,
                    tf::StatusCallback done) override {
    stock_->LoggingAsync(request, response, std::move(done));
  }
  void TracingAsync(const tf::TracingRequest* request, tf::TracingResponse* response,
                    tf::StatusCallback done) override {
    stock_->TracingAsync(request, response, std::move(done));
  }
  void RecvBufAsync(tf::CallOptions* options, const tf::RecvBufRequest* request,
                    tf::RecvBufResponse* response, tf::StatusCallback done) override {
    stock_->RecvBufAsync(options, request, response, std::move(done));
  }
  void CompleteGroupAsync(tf::CallOptions* options, const tf::CompleteGroupRequest* request,
                          tf::CompleteGroupResponse* response, tf::StatusCallback done) override {
    stock_->CompleteGroupAsync(options, request, response, std::move(done));
  }
  void CompleteInstanceAsync(tf::CallOptions* options, const tf::CompleteInstanceRequest* request,
                             tf::CompleteInstanceResponse* response,
                             tf::StatusCallback done) override {
    stock_->CompleteInstanceAsync(options, request, response, std::move(done));
  }
  void GetStepSequenceAsync(const tf::GetStepSequenceRequest* request,
                            tf::GetStepSequenceResponse* response,
                            tf::StatusCallback done) override {
    stock_->GetStepSequenceAsync(request, response, std::move(done));
  }

 private:
  ~RemoteWorker() override { cache_->ReleaseWorker(task_, stock_); }

  RpcNode* const node_;
  const std::string task_;
  tf::WorkerInterface* const stock_;
  tf::WorkerCacheInterface* const cache_;
};

}  // namespace

void RpcWorker::find_tensor(tf::CallOptions* options, const tf::RecvTensorRequest& request,
                            RpcService::Reply reply) {
  tf::Rendezvous::ParsedKey key;
  absl::Status status = tf::Rendezvous::ParseKey(request.rendezvous_key(), &key);
  tf::Device* source = nullptr;
  if (status.ok()) status = PrepareRecvTensor(key, &source);
  if (!status.ok()) return reply(status, tf::Tensor(), false);
  const std::int64_t step = request.step_id();
  // As TensorFlow's gRPC worker, which says that the step is for the caller to end.
  options->SetCancelCallback(
      [step] { LOG(WARNING) << "rpc-over-fabric: RecvTensor cancelled for " << step; });
  env_->rendezvous_mgr->RecvLocalAsync(
      step, key,
      [options, source, reply = std::move(reply)](
          const absl::Status& found, const tf::Rendezvous::Args& sent, const tf::Rendezvous::Args&,
          const tf::Tensor& value, bool is_dead) {
        options->ClearCancelCallback();
        const bool on_host =
            sent.alloc_attrs.on_host() || source->attributes().device_type() == "CPU";
        if (found.ok() && !on_host) {
          return reply(absl::UnimplementedError("rpc-over-fabric: the tensor is on " +
                                                source->name() + ", and it sends host memory only"),
                       tf::Tensor(), false);
        }
        reply(found, value, is_dead);
      });
}

void RpcWorker::GrpcRecvTensorAsync(tf::CallOptions* options, const tf::RecvTensorRequest* request,
                                    ::grpc::ByteBuffer* response, tf::StatusCallback done) {
  RpcCounters::add(RpcCounters::of_process().grpc_recv_tensor_calls);
  tf::GrpcWorker::GrpcRecvTensorAsync(options, request, response, std::move(done));
}

tf::WorkerInterface* RpcWorkerCache::GetOrCreateWorker(const std::string& target) {
  tf::WorkerInterface* const worker = tf::WorkerCacheWrapper::GetOrCreateWorker(target);
  if (worker == nullptr || target == node_->task()) return worker;  // its own it calls directly
  return new RemoteWorker(node_, target, worker, stock_.get());
}

void RpcWorkerCache::ReleaseWorker(const std::string& target, tf::WorkerInterface* worker) {
  if (target == node_->task()) return tf::WorkerCacheWrapper::ReleaseWorker(target, worker);
  tf::WorkerCacheInterface::ReleaseWorker(target, worker);  // deletes it
}

}  // namespace farwrite::experiments
