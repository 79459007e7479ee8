#include "control/served_call.h"

#include <utility>

#include "control/control_transport.h"
#include "tensorflow/core/protobuf/eager_service.pb.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

template <typename Request, typename Response>
bool ServedCall::make(std::string_view body) {
  request_ = std::make_unique<Request>();
  response_ = std::make_unique<Response>();
  return farwrite::plugin::parse(body, request_.get());
}

absl::Status ServedCall::parse(const absl::Status& status, std::string_view body) {
  if (!status.ok() || parse(body)) return status;
  return absl::InternalError("Farwrite: a control call cannot be parsed");
}

bool ServedCall::parse(std::string_view body) {
  switch (method_) {
    case ControlMethod::kRegisterGraph:
      return make<tf::RegisterGraphRequest, tf::RegisterGraphResponse>(body);
    case ControlMethod::kDeregisterGraph:
      return make<tf::DeregisterGraphRequest, tf::DeregisterGraphResponse>(body);
    case ControlMethod::kRunGraph:
      return make<tf::RunGraphRequest, tf::RunGraphResponse>(body);
    case ControlMethod::kCleanupGraph:
      return make<tf::CleanupGraphRequest, tf::CleanupGraphResponse>(body);
    case ControlMethod::kEnqueue:
      return make<tf::eager::EnqueueRequest, tf::eager::EnqueueResponse>(body);
    case ControlMethod::kRunComponentFunction:
      return make<tf::eager::RunComponentFunctionRequest, tf::eager::RunComponentFunctionResponse>(
          body);
    case ControlMethod::kCloseContext:
      return make<tf::eager::CloseContextRequest, tf::eager::CloseContextResponse>(body);
  }
  return false;
}

void ServedCall::begin(tf::StatusCallback done) {
  if (server_.worker == nullptr) {
    done(absl::UnavailableError("Farwrite: the server that is called has been replaced"));
    return;
  }
  if (cancelled()) {
    done(absl::CancelledError("Farwrite: the call was cancelled before it began"));
    return;
  }
  switch (method_) {
    case ControlMethod::kRegisterGraph:
      server_.worker->RegisterGraphAsync(request<tf::RegisterGraphRequest>(),
                                         response<tf::RegisterGraphResponse>(), std::move(done));
      break;
    case ControlMethod::kDeregisterGraph:
      server_.worker->DeregisterGraphAsync(request<tf::DeregisterGraphRequest>(),
                                           response<tf::DeregisterGraphResponse>(),
                                           std::move(done));
      break;
    case ControlMethod::kRunGraph:
      run_request_ = std::make_unique<tf::ProtoRunGraphRequest>(request<tf::RunGraphRequest>());
      run_response_ =
          std::make_unique<tf::NonOwnedProtoRunGraphResponse>(response<tf::RunGraphResponse>());
      server_.worker->RunGraphAsync(&options_, run_request_.get(), run_response_.get(),
                                    std::move(done));
      break;
    case ControlMethod::kCleanupGraph:
      server_.worker->CleanupGraphAsync(request<tf::CleanupGraphRequest>(),
                                        response<tf::CleanupGraphResponse>(), std::move(done));
      break;
    case ControlMethod::kEnqueue:
      done(server_.eager->Enqueue(&options_, request<tf::eager::EnqueueRequest>(),
                                  response<tf::eager::EnqueueResponse>()));
      break;
    case ControlMethod::kRunComponentFunction:
      server_.eager->RunComponentFunction(
          &options_, request<tf::eager::RunComponentFunctionRequest>(),
          response<tf::eager::RunComponentFunctionResponse>(), std::move(done));
      break;
    case ControlMethod::kCloseContext:
      done(server_.eager->CloseContext(request<tf::eager::CloseContextRequest>(),
                                       response<tf::eager::CloseContextResponse>()));
      break;
  }
  // Maybe while it began, before the server could hear of it.
  if (cancelled()) options_.StartCancel();
}

absl::Status ServedCall::enqueue(std::uint64_t executor) {
  if (server_.eager == nullptr) {
    return absl::UnavailableError("Farwrite: the server that is called has been replaced");
  }
  const absl::Status executed =
      server_.eager->Enqueue(nullptr, request<tf::eager::EnqueueRequest>(),
                             response<tf::eager::EnqueueResponse>(), executor);
  return executed.ok() ? check_response() : executed;
}

absl::Status ServedCall::check_response() const {
  if (may_be_sent(*response_)) return absl::OkStatus();
  return absl::ResourceExhaustedError("Farwrite: the answer has more than 2 GB");
}

void ServedCall::cancel() {
  cancelled_.store(true);
  options_.StartCancel();
}

}  // namespace farwrite::plugin
