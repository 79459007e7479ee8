#include "session/step_service.h"

#include <atomic>
#include <string>
#include <vector>

#include "base/work_queue.h"
#include "control/control_message.h"
#include "stats/stats.h"
#include "tensorflow/core/distributed_runtime/call_options.h"
#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/platform/env.h"
#include "tensorflow/core/protobuf/master.pb.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

// One step while its master runs it.
struct StepService::Call {
  std::shared_ptr<PeerProcess> peer;
  std::uint64_t number = 0;
  ArrivedStep arrived;
  Served served;
  std::atomic<bool> cancelled{false};
  tf::CallOptions options;
  tf::InMemoryRunStepRequest request;  // holds views of what the client lent
  tf::InMemoryRunStepResponse response;

  // Also before the master knows of it.
  void cancel() {
    cancelled.store(true);
    options.StartCancel();
  }

  // Makes the request of what has come.
  absl::Status read() {
    const absl::Status seen = arrived.see(kNever);
    if (!seen.ok()) return seen;
    StepTable table;
    tf::RunStepRequest head;
    if (!decode(arrived.table(), arrived.message().tensor_bytes, &table) ||
        !head.ParseFromArray(table.head.data(), static_cast<int>(table.head.size()))) {
      return absl::InternalError("Farwrite: a step that a client asks for cannot be parsed");
    }
    std::vector<NamedTensor> feeds;
    const absl::Status made = arrived.viewed_tensors(table, &feeds);
    if (!made.ok()) return made;
    request.set_session_handle(head.session_handle());
    request.set_partial_run_handle(head.partial_run_handle());
    for (const NamedTensor& feed : feeds) request.add_feed(feed.name, feed.tensor);
    for (const std::string& fetch : head.fetch()) request.add_fetch(fetch);
    for (const std::string& target : head.target()) request.add_target(target);
    *request.mutable_options() = head.options();
    request.set_store_errors_in_response_body(head.store_errors_in_response_body());
    const std::int64_t timeout = head.options().timeout_in_ms();
    options.SetTimeout(timeout > 0 ? timeout : served.timeout_ms);
    return absl::OkStatus();
  }

  // Makes the answer of what the step gave.
  absl::Status pack(PackedStep* packed) {
    tf::RunStepResponse head;
    head.mutable_metadata()->Swap(response.mutable_metadata());
    if (head.ByteSizeLong() > INT32_MAX) {
      return absl::ResourceExhaustedError("Farwrite: the metadata of a step has more than 2 GB");
    }
    StepBody body;
    body.head = head.SerializeAsString();
    for (std::size_t i = 0; i < response.num_tensors(); ++i) {
      NamedTensor& fetched = body.tensors.emplace_back();
      fetched.name = response.tensor_name(i);
      const absl::Status status = response.TensorValue(i, &fetched.tensor);
      if (!status.ok()) return status;
    }
    return PackedStep::pack(std::move(body), packed);
  }
};

void StepService::add(std::uint64_t server, tf::Master* master, std::int64_t timeout_ms) {
  const std::lock_guard<std::mutex> lock(mutex_);
  servers_[server] = {master, timeout_ms};
}

void StepService::remove(std::uint64_t server) {
  const std::lock_guard<std::mutex> lock(mutex_);
  servers_.erase(server);
}

absl::Status StepService::take(const std::shared_ptr<PeerProcess>& peer, const StepMessage& message,
                               View lent) {
  const Key key(peer.get(), message.call);
  CallRef call;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (message.kind == StepKind::kCancel) {
      const auto found = calls_.find(key);
      if (found != calls_.end()) call = found->second;
    } else {
      if (peer->ended()) return absl::OkStatus();  // peer_ended() has been here, or comes
      call = std::make_shared<Call>();
      call->peer = peer;
      call->number = message.call;
      const auto server = servers_.find(message.server);
      if (server != servers_.end()) call->served = server->second;
      if (!calls_.try_emplace(key, call).second) {
        return absl::InvalidArgumentError("it gave two steps one number");
      }
    }
  }
  if (message.kind == StepKind::kCancel) {
    // Not here: what it ends may take long.
    if (call != nullptr) WorkQueue::of_process().submit([call] { call->cancel(); });
    return absl::OkStatus();
  }
  count(stats().session_steps_served);
  call->arrived = ArrivedStep(message, std::move(lent), *peer);
  const auto run_it = [this, call] { run(call); };
  if (call->arrived.is_lent()) {
    tf::Env::Default()->SchedClosure(run_it);  // to see it may wait for the peer
  } else {
    WorkQueue::of_process().submit(run_it);
  }
  return absl::OkStatus();
}

void StepService::run(const CallRef& call) {
  if (call->served.master == nullptr) {
    answer(call, absl::UnavailableError("Farwrite: the server that is called has been replaced"));
    return;
  }
  const absl::Status read = call->read();
  if (!read.ok() || call->cancelled.load()) {
    answer(call, read.ok()
                     ? absl::CancelledError("Farwrite: the step was cancelled before it began")
                     : read);
    return;
  }
  call->served.master->RunStep(&call->options, &call->request, &call->response,
                               [this, call](const absl::Status& status) { answer(call, status); });
  // Maybe while it began, before the master could hear of it.
  if (call->cancelled.load()) call->cancel();
}

void StepService::answer(const CallRef& call, const absl::Status& status) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    calls_.erase({call->peer.get(), call->number});
  }
  auto packed = std::make_shared<PackedStep>();
  absl::Status answered = status.ok() ? call->pack(packed.get()) : status;
  if (!status.ok() && call->request.store_errors_in_response_body()) {
    // As stock's service stores them: its response has no room for payloads.
    answered = absl::Status(status.code(), status.message());
  }
  StepMessage message;
  message.kind = StepKind::kAnswer;
  message.call = call->number;
  message.ok = answered.ok();
  if (!answered.ok()) *packed = PackedStep(encode_status(answered));
  send_step_surely(call->peer, device_, message, std::move(packed));
}

void StepService::peer_ended(const PeerProcess* peer) {
  std::vector<CallRef> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = calls_.lower_bound({peer, 0}); at != calls_.end() && at->first.first == peer;
         ++at) {
      ended.push_back(at->second);
    }
  }
  for (const CallRef& call : ended) {
    WorkQueue::of_process().submit([call] { call->cancel(); });
  }
}

}  // namespace farwrite::plugin
