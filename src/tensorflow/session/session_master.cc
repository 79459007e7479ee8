#include "session/session_master.h"

#include <chrono>
#include <utility>

#include "stats/stats.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/protobuf/master.pb.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// A meeting takes milliseconds; one that fails has a connection's timeout of 10 s.
constexpr std::chrono::seconds kMeet(12);

// A RunStepRequest without its feeds. Not its id, by which a master recognizes a request that gRPC
// sends twice.
std::string head_of(const tf::RunStepRequestWrapper& request) {
  tf::RunStepRequest head;
  head.set_session_handle(request.session_handle());
  head.set_partial_run_handle(request.partial_run_handle());
  for (std::size_t i = 0; i < request.num_fetches(); ++i) head.add_fetch(request.fetch_name(i));
  for (std::size_t i = 0; i < request.num_targets(); ++i) head.add_target(request.target_name(i));
  *head.mutable_options() = request.options();
  head.set_store_errors_in_response_body(request.store_errors_in_response_body());
  return head.SerializeAsString();
}

absl::Status pack(const tf::RunStepRequestWrapper& request, PackedStep* packed) {
  StepBody body;
  body.head = head_of(request);
  for (std::size_t i = 0; i < request.num_feeds(); ++i) {
    NamedTensor& feed = body.tensors.emplace_back();
    feed.name = request.feed_name(i);
    const absl::Status status = request.FeedValue(i, &feed.tensor);
    if (!status.ok()) return status;
  }
  return PackedStep::pack(std::move(body), packed);
}

}  // namespace

absl::Status SessionMaster::CreateSession(tf::CallOptions* options,
                                          const tf::CreateSessionRequest* request,
                                          tf::CreateSessionResponse* response) {
  const absl::Status created = stock_->CreateSession(options, request, response);
  if (created.ok() && link_ != nullptr) link_->wait(kMeet);
  return created;
}

absl::Status SessionMaster::RunStep(tf::CallOptions* options, tf::RunStepRequestWrapper* request,
                                    tf::MutableRunStepResponseWrapper* response) {
  auto* const own_response = dynamic_cast<StepResponse*>(response);
  if (own_response == nullptr) return stock_->RunStep(options, request, response);  // of protos
  StepResponse& answer = *own_response;
  if (link_ == nullptr) {
    report(no_link_);
  } else {
    const std::shared_ptr<Route> route = link_->route();
    switch (route->state()) {
      case Route::State::kMeeting:
        break;
      case Route::State::kPush: {
        absl::Status status;
        if (run_by_farwrite(*route, options->GetTimeout(), *request, answer, &status)) {
          return status;
        }
        if (route->reach().loopback) report("its master is in this process");
        break;
      }
      case Route::State::kStock:
        report(route->reach().refusal);
        break;
      case Route::State::kFailed:
        // FARWRITE_FABRICS allows nothing else.
        if (route->refused()) return route->failure();
        report(std::string(route->failure().message()));
        break;
    }
  }
  count(stats().grpc_session_steps);
  return run_by_grpc(options, *request, answer);
}

bool SessionMaster::run_by_farwrite(const Route& route, std::int64_t timeout_ms,
                                    const tf::RunStepRequestWrapper& request,
                                    StepResponse& response, absl::Status* status) {
  const Callee callee = Callee::of(route, route.state());
  if (callee.peer == nullptr) return false;
  const Deadline deadline =
      timeout_ms > 0 ? std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms)
                     : kNever;
  PackedStep packed;
  if (!pack(request, &packed).ok()) return false;  // gRPC says what is wrong with it
  StepBody answer;
  if (!link_->steps().run(callee, target_, std::move(packed), deadline, status, &answer))
    return false;
  count(stats().session_steps);
  if (!status->ok()) return true;
  tf::RunStepResponse head;
  if (!head.ParseFromArray(answer.head.data(), static_cast<int>(answer.head.size()))) {
    *status = absl::InternalError("Farwrite: the answer of " + target_ + " cannot be parsed");
    return true;
  }
  response.mutable_metadata()->Swap(head.mutable_metadata());
  response.set_tensors(std::move(answer.tensors));
  return true;
}

absl::Status SessionMaster::run_by_grpc(tf::CallOptions* options,
                                        const tf::RunStepRequestWrapper& request,
                                        StepResponse& response) {
  // As the session makes it for a master that gRPC calls.
  const std::unique_ptr<tf::MutableRunStepRequestWrapper> stock(stock_->CreateRunStepRequest());
  stock->set_session_handle(request.session_handle());
  if (!request.partial_run_handle().empty()) {
    stock->set_partial_run_handle(request.partial_run_handle());
  }
  for (std::size_t i = 0; i < request.num_feeds(); ++i) {
    tf::Tensor feed;
    const absl::Status status = request.FeedValue(i, &feed);
    if (!status.ok()) return status;
    stock->add_feed(request.feed_name(i), feed);
  }
  for (std::size_t i = 0; i < request.num_fetches(); ++i) stock->add_fetch(request.fetch_name(i));
  for (std::size_t i = 0; i < request.num_targets(); ++i) stock->add_target(request.target_name(i));
  *stock->mutable_options() = request.options();
  stock->set_store_errors_in_response_body(request.store_errors_in_response_body());
  return stock_->RunStep(options, stock.get(), response.stock());
}

void SessionMaster::report(const std::string& reason) {
  if (reported_.exchange(true)) return;
  LOG(WARNING) << "Farwrite: the steps of a session of " << target_ << " go over gRPC: " << reason;
}

}  // namespace farwrite::plugin
