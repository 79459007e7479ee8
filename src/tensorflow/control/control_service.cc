#include "control/control_service.h"

#include <atomic>
#include <vector>

#include "control/control_transport.h"
#include "server/work_queue.h"
#include "stats/stats.h"
#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/platform/threadpool.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

// One call while the worker works on it.
class ControlService::Call {
 public:
  std::shared_ptr<PeerProcess> peer;
  std::uint64_t number = 0;
  ControlMethod method = ControlMethod::kRunGraph;
  tf::GrpcWorker* worker = nullptr;

  // False: the request cannot be parsed.
  bool begin(std::string_view body, tf::StatusCallback done) {
    switch (method) {
      case ControlMethod::kRegisterGraph: {
        const auto* const request = make<tf::RegisterGraphRequest>(&request_);
        auto* const response = make<tf::RegisterGraphResponse>(&response_);
        if (!parse(body, request_.get())) return false;
        // As gRPC's service does: it optimizes the graph.
        worker->env()->compute_pool->Schedule([this, request, response, done = std::move(done)] {
          worker->RegisterGraphAsync(request, response, done);
        });
        return true;
      }
      case ControlMethod::kDeregisterGraph: {
        const auto* const request = make<tf::DeregisterGraphRequest>(&request_);
        auto* const response = make<tf::DeregisterGraphResponse>(&response_);
        if (!parse(body, request_.get())) return false;
        worker->DeregisterGraphAsync(request, response, std::move(done));
        return true;
      }
      case ControlMethod::kRunGraph: {
        const auto* const request = make<tf::RunGraphRequest>(&request_);
        auto* const response = make<tf::RunGraphResponse>(&response_);
        if (!parse(body, request_.get())) return false;
        run_request_ = std::make_unique<tf::ProtoRunGraphRequest>(request);
        run_response_ = std::make_unique<tf::NonOwnedProtoRunGraphResponse>(response);
        worker->RunGraphAsync(&options_, run_request_.get(), run_response_.get(), std::move(done));
        return true;
      }
      case ControlMethod::kCleanupGraph: {
        const auto* const request = make<tf::CleanupGraphRequest>(&request_);
        auto* const response = make<tf::CleanupGraphResponse>(&response_);
        if (!parse(body, request_.get())) return false;
        worker->CleanupGraphAsync(request, response, std::move(done));
        return true;
      }
    }
    return false;
  }

  // Also before begin().
  void cancel() {
    cancelled_.store(true);
    options_.StartCancel();
  }
  bool cancelled() const { return cancelled_.load(); }
  const google::protobuf::Message& response() const { return *response_; }

 private:
  template <typename Message>
  static Message* make(std::unique_ptr<google::protobuf::Message>* owner) {
    auto message = std::make_unique<Message>();
    Message* const made = message.get();
    *owner = std::move(message);
    return made;
  }

  tf::CallOptions options_;
  std::atomic<bool> cancelled_{false};
  std::unique_ptr<google::protobuf::Message> request_, response_;
  std::unique_ptr<tf::ProtoRunGraphRequest> run_request_;
  std::unique_ptr<tf::NonOwnedProtoRunGraphResponse> run_response_;
};

void ControlService::add(std::uint64_t server, tf::GrpcWorker* worker) {
  const std::lock_guard<std::mutex> lock(mutex_);
  workers_[server] = worker;
}

void ControlService::remove(std::uint64_t server) {
  const std::lock_guard<std::mutex> lock(mutex_);
  workers_.erase(server);
}

absl::Status ControlService::take(const std::shared_ptr<PeerProcess>& peer,
                                  const ControlMessage& message, View lent) {
  const Key key(peer.get(), message.call);
  std::shared_ptr<Call> call;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (message.kind == ControlKind::kCancel) {
      const auto found = calls_.find(key);
      if (found != calls_.end()) call = found->second;
    } else {
      call = std::make_shared<Call>();
      call->peer = peer;
      call->number = message.call;
      call->method = message.method;
      const auto worker = workers_.find(message.server);
      if (worker != workers_.end()) call->worker = worker->second;
      if (!calls_.try_emplace(key, call).second) {
        return absl::InvalidArgumentError("it gave two calls one number");
      }
    }
  }
  if (message.kind == ControlKind::kCancel) {
    // Not here: what it ends may take long.
    if (call != nullptr) WorkQueue::of_process().submit([call] { call->cancel(); });
    return absl::OkStatus();
  }
  count(stats().control_calls);
  if (lent == nullptr) {
    // Not here: to begin a step takes as long as some ten pushes.
    WorkQueue::of_process().submit(
        [this, call, body = std::string(message.body)] { run(call, body); });
    return absl::OkStatus();
  }
  see_body(message, std::move(lent), *peer,
           [this, call](const absl::Status& status, std::string_view body) {
             if (status.ok()) {
               run(call, body);
             } else {
               answer(*call, status);
             }
           });
  return absl::OkStatus();
}

void ControlService::run(const std::shared_ptr<Call>& call, std::string_view body) {
  if (call->worker == nullptr) {
    answer(*call, absl::UnavailableError("Farwrite: the server that is called has been replaced"));
    return;
  }
  if (call->cancelled()) {
    answer(*call, absl::CancelledError("Farwrite: the call was cancelled before it began"));
    return;
  }
  const bool begun =
      call->begin(body, [this, call](const absl::Status& status) { answer(*call, status); });
  if (!begun) answer(*call, absl::InternalError("Farwrite: a control call cannot be parsed"));
  // Maybe while it began, before the worker could hear of it.
  if (begun && call->cancelled()) call->cancel();
}

void ControlService::answer(Call& call, const absl::Status& status) {
  std::shared_ptr<Call> owned;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find({call.peer.get(), call.number});
    if (found != calls_.end()) {
      owned = std::move(found->second);
      calls_.erase(found);
    }
  }
  ControlMessage message;
  message.kind = ControlKind::kAnswer;
  message.method = call.method;
  message.call = call.number;
  absl::Status sent = status;
  if (sent.ok() && !may_be_sent(call.response())) {
    sent = absl::ResourceExhaustedError("Farwrite: the answer has more than 2 GB");
  }
  message.ok = sent.ok();
  send_surely(call.peer, device_, message,
              sent.ok() ? call.response().SerializeAsString() : encode_status(sent));
}

void ControlService::peer_ended(const PeerProcess* peer) {
  std::vector<std::shared_ptr<Call>> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto end = calls_.end();
    for (auto at = calls_.lower_bound({peer, 0}); at != end && at->first.first == peer; ++at) {
      ended.push_back(at->second);
    }
  }
  for (const std::shared_ptr<Call>& call : ended) {
    WorkQueue::of_process().submit([call] { call->cancel(); });
  }
}

}  // namespace farwrite::plugin
