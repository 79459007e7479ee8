#include "control/control_call.h"

#include <utility>

#include "tensorflow/core/protobuf/eager_service.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

template <typename Request, typename Response>
bool ControlCall::make(const ArrivedCall& arrived) {
  request_ = std::make_unique<Request>();
  response_ = std::make_unique<Response>();
  return arrived.parse(request_.get());
}

absl::Status ControlCall::parse(const absl::Status& status, const ArrivedCall& arrived) {
  if (!status.ok() || parse(arrived)) return status;
  return absl::InternalError("Farwrite: a control call cannot be parsed");
}

bool ControlCall::parse(const ArrivedCall& arrived) {
  switch (method()) {
    case Method::kRegisterGraph:
      return make<tf::RegisterGraphRequest, tf::RegisterGraphResponse>(arrived);
    case Method::kDeregisterGraph:
      return make<tf::DeregisterGraphRequest, tf::DeregisterGraphResponse>(arrived);
    case Method::kRunGraph:
      return make<tf::RunGraphRequest, tf::RunGraphResponse>(arrived);
    case Method::kCleanupGraph:
      return make<tf::CleanupGraphRequest, tf::CleanupGraphResponse>(arrived);
    case Method::kEnqueue:
      return make<tf::eager::EnqueueRequest, tf::eager::EnqueueResponse>(arrived);
    case Method::kRunComponentFunction:
      return make<tf::eager::RunComponentFunctionRequest, tf::eager::RunComponentFunctionResponse>(
          arrived);
    case Method::kCloseContext:
      return make<tf::eager::CloseContextRequest, tf::eager::CloseContextResponse>(arrived);
    case Method::kRunStep:
      break;
  }
  return false;
}

void ControlCall::begin(tf::StatusCallback done) {
  if (server_.worker == nullptr) {
    done(absl::UnavailableError("Farwrite: the server that is called has been replaced"));
    return;
  }
  if (cancelled()) {
    done(absl::CancelledError("Farwrite: the call was cancelled before it began"));
    return;
  }
  switch (method()) {
    case Method::kRegisterGraph:
      server_.worker->RegisterGraphAsync(request<tf::RegisterGraphRequest>(),
                                         response<tf::RegisterGraphResponse>(), std::move(done));
      break;
    case Method::kDeregisterGraph:
      server_.worker->DeregisterGraphAsync(request<tf::DeregisterGraphRequest>(),
                                           response<tf::DeregisterGraphResponse>(),
                                           std::move(done));
      break;
    case Method::kRunGraph:
      run_request_ = std::make_unique<tf::ProtoRunGraphRequest>(request<tf::RunGraphRequest>());
      run_response_ =
          std::make_unique<tf::NonOwnedProtoRunGraphResponse>(response<tf::RunGraphResponse>());
      server_.worker->RunGraphAsync(&options_, run_request_.get(), run_response_.get(),
                                    std::move(done));
      break;
    case Method::kCleanupGraph:
      server_.worker->CleanupGraphAsync(request<tf::CleanupGraphRequest>(),
                                        response<tf::CleanupGraphResponse>(), std::move(done));
      break;
    case Method::kEnqueue:
      done(server_.eager->Enqueue(&options_, request<tf::eager::EnqueueRequest>(),
                                  response<tf::eager::EnqueueResponse>()));
      break;
    case Method::kRunComponentFunction:
      server_.eager->RunComponentFunction(
          &options_, request<tf::eager::RunComponentFunctionRequest>(),
          response<tf::eager::RunComponentFunctionResponse>(), std::move(done));
      break;
    case Method::kCloseContext:
      done(server_.eager->CloseContext(request<tf::eager::CloseContextRequest>(),
                                       response<tf::eager::CloseContextResponse>()));
      break;
    case Method::kRunStep:
      break;
  }
  // Maybe while it began, before the server could receive it.
  if (cancelled()) options_.StartCancel();
}

absl::Status ControlCall::enqueue(std::uint64_t executor) {
  if (server_.eager == nullptr) {
    return absl::UnavailableError("Farwrite: the server that is called has been replaced");
  }
  const absl::Status executed =
      server_.eager->Enqueue(nullptr, request<tf::eager::EnqueueRequest>(),
                             response<tf::eager::EnqueueResponse>(), executor);
  return executed.ok() ? check_response() : executed;
}

absl::Status ControlCall::check_response() const {
  if (may_be_sent(*response_)) return absl::OkStatus();
  return absl::ResourceExhaustedError("Farwrite: the answer has more than 2 GB");
}

void ControlCall::cancel() {
  cancelled_.store(true);
  options_.StartCancel();
}

}  // namespace farwrite::plugin
