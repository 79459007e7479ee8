#include "control/control_client.h"

#include <utility>
#include <vector>

#include "base/remote_error.h"
#include "base/work_queue.h"
#include "control/control_transport.h"
#include "tensorflow/core/platform/status.h"

namespace farwrite::plugin {

bool ControlClient::begin(const Call& call, const google::protobuf::Message& request) {
  const bool has_deadline = call.options != nullptr && call.options->GetTimeout() > 0;
  if (has_deadline || !may_be_sent(request)) return false;
  const std::string body = request.SerializeAsString();
  const auto begun = std::make_shared<Pending>(call);
  ControlMessage message;
  message.method = call.method;
  message.server = call.server;
  message.stream = call.stream;
  message.position = call.position;
  {
    // The options are the caller's until `done`, which the code that finds the call may call.
    const std::lock_guard<std::mutex> lock(mutex_);
    message.call = ++last_;
    calls_.emplace(message.call, begun);
    if (call.options != nullptr) {
      // Called under a lock of the options, which the end of a call takes.
      call.options->SetCancelCallback([this, number = message.call] {
        WorkQueue::of_process().submit([this, number] { cancel(number); });
      });
    }
  }
  const Number number = message.call;
  const absl::Status sent = send_control(*begun->peer, device_, message, body);
  if (sent.ok()) {
    // The peer may have ended before it could be known that a caller waits, and the call may have
    // been cancelled before the peer knew of it.
    if (begun->peer->ended()) end(number, begun->peer->gone());
    if (begun->cancelled.load()) tell_cancelled(number, *begun);
    return true;
  }
  if (take(number) == nullptr) return true;  // it has ended
  if (call.options != nullptr) call.options->ClearCancelCallback();
  return false;
}

ControlClient::CallRef ControlClient::take(Number number) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = calls_.find(number);
  if (found == calls_.end()) return nullptr;
  CallRef call = std::move(found->second);
  calls_.erase(found);
  return call;
}

void ControlClient::finish(Pending& call, const absl::Status& status) {
  if (call.options != nullptr) call.options->ClearCancelCallback();
  // As stock treats a call that was cancelled: what it was cancelled for counts.
  const absl::Status told =
      absl::IsCancelled(status) ? tsl::StatusGroup::MakeDerived(status) : status;
  call.done(called_error(call.task, told));
}

void ControlClient::tell_cancelled(Number number, const Pending& call) {
  ControlMessage message;
  message.kind = ControlKind::kCancel;
  message.call = number;
  message.server = call.server;
  send_surely(call.peer, device_, message, {});
}

void ControlClient::end_stream(std::shared_ptr<PeerProcess> peer, std::uint64_t stream) {
  ControlMessage message;
  message.kind = ControlKind::kEndStream;
  message.stream = stream;
  send_surely(std::move(peer), device_, message, {});
}

void ControlClient::cancel(Number number) {
  const CallRef call = take(number);
  if (call == nullptr) return;
  call->cancelled.store(true);
  tell_cancelled(number, *call);
  finish(*call, absl::CancelledError("Farwrite: the call was cancelled"));
}

absl::Status ControlClient::take_answer(PeerProcess& peer, const ControlMessage& message,
                                        View lent) {
  CallRef answered;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find(message.call);
    if (found == calls_.end()) return absl::OkStatus();  // cancelled meanwhile
    if (found->second->peer.get() != &peer) {
      return absl::InvalidArgumentError("it answered a call that was made to another");
    }
    answered = found->second;
  }
  see_body(
      message, std::move(lent), peer,
      [](std::function<void()> work) { WorkQueue::of_process().submit(std::move(work)); },
      [answered] { return answered->cancelled.load(); },
      [this, number = message.call, ok = message.ok](absl::Status status, std::string_view body) {
        const CallRef call = take(number);
        if (call == nullptr) return;  // cancelled, or the peer has ended
        if (status.ok() && !ok) status = decode_status(body);
        if (status.ok() && !parse(body, call->response)) {
          status = absl::InternalError("Farwrite: the answer of " + call->task +
                                       " to a control call cannot be parsed");
        }
        finish(*call, status);
      });
  return absl::OkStatus();
}

void ControlClient::peer_ended(const PeerProcess* peer, const absl::Status& status) {
  std::vector<CallRef> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = calls_.begin(); at != calls_.end();) {
      if (at->second->peer.get() != peer) {
        ++at;
        continue;
      }
      ended.push_back(std::move(at->second));
      at = calls_.erase(at);
    }
  }
  for (const CallRef& call : ended) {
    WorkQueue::of_process().submit([call, status] { finish(*call, status); });
  }
}

void ControlClient::end(Number number, const absl::Status& status) {
  if (const CallRef call = take(number)) {
    WorkQueue::of_process().submit([call, status] { finish(*call, status); });
  }
}

}  // namespace farwrite::plugin
