// ControlWorker: a worker of another task, whose calls of every step go over Farwrite where a
// channel leads to it, and the rest over gRPC.
#pragma once

#include <memory>
#include <string>

#include "control/control_cluster.h"
#include "tensorflow/core/distributed_runtime/worker_interface.h"

namespace farwrite::plugin {

// Thread-safe. TensorFlow gives it back by WorkerCache::ReleaseWorker().
class ControlWorker final : public tensorflow::WorkerInterface {
 public:
  // `stock` is the cluster's worker of this task, for as long as this one lives.
  ControlWorker(std::shared_ptr<const ControlCluster> cluster, std::string task,
                tensorflow::WorkerInterface* stock)
      : cluster_(std::move(cluster)), task_(std::move(task)), stock_(stock) {}

  void RegisterGraphAsync(const tensorflow::RegisterGraphRequest* request,
                          tensorflow::RegisterGraphResponse* response,
                          tensorflow::StatusCallback done) override;
  void DeregisterGraphAsync(const tensorflow::DeregisterGraphRequest* request,
                            tensorflow::DeregisterGraphResponse* response,
                            tensorflow::StatusCallback done) override;
  void RunGraphAsync(tensorflow::CallOptions* options, tensorflow::RunGraphRequestWrapper* request,
                     tensorflow::MutableRunGraphResponseWrapper* response,
                     tensorflow::StatusCallback done) override;
  void CleanupGraphAsync(const tensorflow::CleanupGraphRequest* request,
                         tensorflow::CleanupGraphResponse* response,
                         tensorflow::StatusCallback done) override;

  // By gRPC: once for a session or a group, or answered only when something has happened.
  void GetStatusAsync(tensorflow::CallOptions* options, const tensorflow::GetStatusRequest* request,
                      tensorflow::GetStatusResponse* response, bool fail_fast,
                      tensorflow::StatusCallback done) override {
    stock_->GetStatusAsync(options, request, response, fail_fast, std::move(done));
  }
  void CreateWorkerSessionAsync(const tensorflow::CreateWorkerSessionRequest* request,
                                tensorflow::CreateWorkerSessionResponse* response,
                                tensorflow::StatusCallback done) override {
    stock_->CreateWorkerSessionAsync(request, response, std::move(done));
  }
  void DeleteWorkerSessionAsync(tensorflow::CallOptions* options,
                                const tensorflow::DeleteWorkerSessionRequest* request,
                                tensorflow::DeleteWorkerSessionResponse* response,
                                tensorflow::StatusCallback done) override {
    stock_->DeleteWorkerSessionAsync(options, request, response, std::move(done));
  }
  void CleanupAllAsync(const tensorflow::CleanupAllRequest* request,
                       tensorflow::CleanupAllResponse* response,
                       tensorflow::StatusCallback done) override {
    stock_->CleanupAllAsync(request, response, std::move(done));
  }
  void RecvTensorAsync(tensorflow::CallOptions* options,
                       const tensorflow::RecvTensorRequest* request,
                       tensorflow::TensorResponse* response,
                       tensorflow::StatusCallback done) override {
    stock_->RecvTensorAsync(options, request, response, std::move(done));
  }
  void LoggingAsync(const tensorflow::LoggingRequest* request,
                    tensorflow::LoggingResponse* response,
                    tensorflow::StatusCallback done) override {
    stock_->LoggingAsync(request, response, std::move(done));
  }
  void TracingAsync(const tensorflow::TracingRequest* request,
                    tensorflow::TracingResponse* response,
                    tensorflow::StatusCallback done) override {
    stock_->TracingAsync(request, response, std::move(done));
  }
  void RecvBufAsync(tensorflow::CallOptions* options, const tensorflow::RecvBufRequest* request,
                    tensorflow::RecvBufResponse* response,
                    tensorflow::StatusCallback done) override {
    stock_->RecvBufAsync(options, request, response, std::move(done));
  }
  void CompleteGroupAsync(tensorflow::CallOptions* options,
                          const tensorflow::CompleteGroupRequest* request,
                          tensorflow::CompleteGroupResponse* response,
                          tensorflow::StatusCallback done) override {
    stock_->CompleteGroupAsync(options, request, response, std::move(done));
  }
  void CompleteInstanceAsync(tensorflow::CallOptions* options,
                             const tensorflow::CompleteInstanceRequest* request,
                             tensorflow::CompleteInstanceResponse* response,
                             tensorflow::StatusCallback done) override {
    stock_->CompleteInstanceAsync(options, request, response, std::move(done));
  }
  void GetStepSequenceAsync(const tensorflow::GetStepSequenceRequest* request,
                            tensorflow::GetStepSequenceResponse* response,
                            tensorflow::StatusCallback done) override {
    stock_->GetStepSequenceAsync(request, response, std::move(done));
  }

 private:
  // Gives the stock worker back.
  ~ControlWorker() override { cluster_->stock().ReleaseWorker(task_, stock_); }

  const std::shared_ptr<const ControlCluster> cluster_;
  const std::string task_;
  tensorflow::WorkerInterface* const stock_;
};

}  // namespace farwrite::plugin
