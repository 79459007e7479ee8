// EagerClient: TensorFlow 2's calls of an eager context on another task: those of every step by
// Farwrite where a channel leads there, and the rest over gRPC.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "control/control_cluster.h"
#include "control/enqueue_stream.h"
#include "core/mutex.h"
#include "tensorflow/core/distributed_runtime/eager/eager_client.h"

namespace farwrite::plugin {

// Thread-safe.
class EagerClient final : public tensorflow::eager::EagerClient {
 public:
  using Stock = tensorflow::core::RefCountPtr<tensorflow::eager::EagerClient>;
  EagerClient(std::shared_ptr<const ControlCluster> cluster, std::string task, Stock stock)
      : cluster_(std::move(cluster)), task_(std::move(task)), stock_(std::move(stock)) {}

  void EnqueueAsync(tensorflow::CallOptions* options,
                    const tensorflow::eager::EnqueueRequest* request,
                    tensorflow::eager::EnqueueResponse* response,
                    tensorflow::StatusCallback done) override;
  void RunComponentFunctionAsync(tensorflow::CallOptions* options,
                                 const tensorflow::eager::RunComponentFunctionRequest* request,
                                 tensorflow::eager::RunComponentFunctionResponse* response,
                                 tensorflow::StatusCallback done) override;
  void StreamingEnqueueAsync(bool enable_streaming_enqueue, tensorflow::CallOptions* options,
                             const tensorflow::eager::EnqueueRequest* request,
                             tensorflow::eager::EnqueueResponse* response,
                             tensorflow::StatusCallback done) override;
  void CloseContextAsync(const tensorflow::eager::CloseContextRequest* request,
                         tensorflow::eager::CloseContextResponse* response,
                         tensorflow::StatusCallback done) override;

  bool allow_multiple_pending_requests() const override {
    return stock_->allow_multiple_pending_requests();
  }

  // By gRPC: once for a context, or answered only when something has happened.
  void CreateContextAsync(const tensorflow::eager::CreateContextRequest* request,
                          tensorflow::eager::CreateContextResponse* response,
                          tensorflow::StatusCallback done) override {
    stock_->CreateContextAsync(request, response, keeping(std::move(done)));
  }
  void CreateContextAsync(const tensorflow::eager::CreateContextRequest* request,
                          tensorflow::eager::CreateContextResponse* response,
                          tensorflow::StatusCallback done, std::int64_t init_timeout_in_ms,
                          int retries) override {
    stock_->CreateContextAsync(request, response, keeping(std::move(done)), init_timeout_in_ms,
                               retries);
  }
  void UpdateContextAsync(const tensorflow::eager::UpdateContextRequest* request,
                          tensorflow::eager::UpdateContextResponse* response,
                          tensorflow::StatusCallback done) override {
    stock_->UpdateContextAsync(request, response, keeping(std::move(done)));
  }
  void WaitQueueDoneAsync(const tensorflow::eager::WaitQueueDoneRequest* request,
                          tensorflow::eager::WaitQueueDoneResponse* response,
                          tensorflow::StatusCallback done) override {
    stock_->WaitQueueDoneAsync(request, response, keeping(std::move(done)));
  }
  void KeepAliveAsync(const tensorflow::eager::KeepAliveRequest* request,
                      tensorflow::eager::KeepAliveResponse* response,
                      tensorflow::StatusCallback done) override {
    stock_->KeepAliveAsync(request, response, keeping(std::move(done)));
  }

 private:
  using Context = std::uint64_t;

  // Keeps this client until `done`: callers give it back before, as they may stock's.
  tensorflow::StatusCallback keeping(tensorflow::StatusCallback done) const;
  std::shared_ptr<EnqueueStream> stream_of(Context context);

  const std::shared_ptr<const ControlCluster> cluster_;
  const std::string task_;
  const Stock stock_;
  core::Mutex mutex_{core::LockRank::kProgram};
  std::unordered_map<Context, std::shared_ptr<EnqueueStream>> streams_ FW_GUARDED_BY(mutex_);
};

// The clients of one cluster. Thread-safe.
class EagerClientCache final : public tensorflow::eager::EagerClientCache {
 public:
  EagerClientCache(std::shared_ptr<const ControlCluster> cluster,
                   std::unique_ptr<tensorflow::eager::EagerClientCache> stock)
      : cluster_(std::move(cluster)), stock_(std::move(stock)) {}

  absl::Status GetClient(
      const std::string& target,
      tensorflow::core::RefCountPtr<tensorflow::eager::EagerClient>* client) override;

 private:
  const std::shared_ptr<const ControlCluster> cluster_;
  const std::unique_ptr<tensorflow::eager::EagerClientCache> stock_;
  core::Mutex mutex_{core::LockRank::kProgram, 4};
  std::unordered_map<std::string, tensorflow::core::RefCountPtr<EagerClient>> clients_
      FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::plugin
