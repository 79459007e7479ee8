// SessionMaster: the master of a session in another process. Its steps, which carry what a client
// feeds and fetches, go over Farwrite where a channel leads to that process; all else goes over
// gRPC.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "session/master_link.h"
#include "session/step_client.h"
#include "session/step_response.h"
#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/distributed_runtime/master_interface.h"

namespace farwrite::plugin {

// Thread-safe, as the session is.
class SessionMaster final : public tensorflow::MasterInterface {
 public:
  // `stock` calls the same master over gRPC. Without a link, because of `reason`, all calls do.
  SessionMaster(std::unique_ptr<tensorflow::MasterInterface> stock, std::string target,
                MasterLink* link, std::string reason)
      : stock_(std::move(stock)),
        target_(std::move(target)),
        link_(link),
        no_link_(std::move(reason)) {}

  // Also meets the master's process, once the session is there.
  absl::Status CreateSession(tensorflow::CallOptions* options,
                             const tensorflow::CreateSessionRequest* request,
                             tensorflow::CreateSessionResponse* response) override;
  using tensorflow::MasterInterface::RunStep;
  absl::Status RunStep(tensorflow::CallOptions* options, tensorflow::RunStepRequestWrapper* request,
                       tensorflow::MutableRunStepResponseWrapper* response) override;
  tensorflow::MutableRunStepRequestWrapper* CreateRunStepRequest() override {
    return new tensorflow::InMemoryRunStepRequest;
  }
  tensorflow::MutableRunStepResponseWrapper* CreateRunStepResponse() override {
    return new StepResponse;
  }

  absl::Status ExtendSession(tensorflow::CallOptions* options,
                             const tensorflow::ExtendSessionRequest* request,
                             tensorflow::ExtendSessionResponse* response) override {
    return stock_->ExtendSession(options, request, response);
  }
  absl::Status PartialRunSetup(tensorflow::CallOptions* options,
                               const tensorflow::PartialRunSetupRequest* request,
                               tensorflow::PartialRunSetupResponse* response) override {
    return stock_->PartialRunSetup(options, request, response);
  }
  absl::Status CloseSession(tensorflow::CallOptions* options,
                            const tensorflow::CloseSessionRequest* request,
                            tensorflow::CloseSessionResponse* response) override {
    return stock_->CloseSession(options, request, response);
  }
  absl::Status ListDevices(tensorflow::CallOptions* options,
                           const tensorflow::ListDevicesRequest* request,
                           tensorflow::ListDevicesResponse* response) override {
    return stock_->ListDevices(options, request, response);
  }
  absl::Status Reset(tensorflow::CallOptions* options, const tensorflow::ResetRequest* request,
                     tensorflow::ResetResponse* response) override {
    return stock_->Reset(options, request, response);
  }
  absl::Status MakeCallable(tensorflow::CallOptions* options,
                            const tensorflow::MakeCallableRequest* request,
                            tensorflow::MakeCallableResponse* response) override {
    return stock_->MakeCallable(options, request, response);
  }
  absl::Status RunCallable(tensorflow::CallOptions* options,
                           const tensorflow::RunCallableRequest* request,
                           tensorflow::RunCallableResponse* response) override {
    return stock_->RunCallable(options, request, response);
  }
  absl::Status ReleaseCallable(tensorflow::CallOptions* options,
                               const tensorflow::ReleaseCallableRequest* request,
                               tensorflow::ReleaseCallableResponse* response) override {
    return stock_->ReleaseCallable(options, request, response);
  }

 private:
  // Whether the step went over Farwrite. If not, nothing of it was sent.
  bool run_by_farwrite(const Route& route, std::int64_t timeout_ms,
                       const tensorflow::RunStepRequestWrapper& request, StepResponse& response,
                       absl::Status* status);
  absl::Status run_by_grpc(tensorflow::CallOptions* options,
                           const tensorflow::RunStepRequestWrapper& request,
                           StepResponse& response);
  // Logs once a session that its steps go over gRPC.
  void report(const std::string& reason);

  const std::unique_ptr<tensorflow::MasterInterface> stock_;
  const std::string target_;
  MasterLink* const link_;
  const std::string no_link_;
  std::atomic<bool> reported_{false};
};

}  // namespace farwrite::plugin
