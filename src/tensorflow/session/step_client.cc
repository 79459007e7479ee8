#include "session/step_client.h"

#include <utility>

#include "base/remote_error.h"
#include "control/control_message.h"

namespace farwrite::plugin {

bool StepClient::run(const Callee& callee, const std::string& name, const PackedStep& step,
                     Deadline deadline, absl::Status* status, StepBody* answer) {
  const auto call = std::make_shared<Call>();
  call->peer = callee.peer;
  StepMessage message;
  message.server = callee.server;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    message.call = ++last_;
    calls_.emplace(message.call, call);
  }
  const absl::Status sent = send_step(*callee.peer, device_, message, step);
  std::unique_lock<std::mutex> lock(mutex_);
  if (!sent.ok()) {
    calls_.erase(message.call);
    return false;
  }
  // The peer may have ended before it could be known that a caller waits.
  if (callee.peer->ended() && calls_.erase(message.call) > 0) {
    call->is_over = true;
    call->status = callee.peer->gone();
  }
  const auto is_over = [&call] { return call->is_over; };
  if (deadline == kNever) {
    call->over.wait(lock, is_over);
  } else if (!call->over.wait_until(lock, deadline, is_over)) {
    calls_.erase(message.call);
    lock.unlock();
    cancel(callee, message.call);
    // As gRPC says it.
    *status = absl::DeadlineExceededError("Deadline Exceeded");
    return true;
  }
  lock.unlock();
  *status =
      call->status.ok() ? read(call->answer, deadline, answer) : remote_error(name, call->status);
  return true;
}

absl::Status StepClient::read(ArrivedStep& arrived, Deadline deadline, StepBody* answer) {
  const absl::Status seen = arrived.see(deadline);
  if (!seen.ok()) return seen;
  const StepMessage message = arrived.message();
  if (!message.ok) return decode_status(arrived.table());
  StepTable table;
  if (!decode(arrived.table(), message.tensor_bytes, &table)) {
    return absl::InternalError("Farwrite: the answer of a master cannot be parsed");
  }
  answer->head = std::string(table.head);
  // A program may write into what it fetched, which must not be the peer's memory.
  return arrived.own_tensors(table, &answer->tensors);
}

void StepClient::cancel(const Callee& callee, Number number) {
  StepMessage message;
  message.kind = StepKind::kCancel;
  message.call = number;
  message.server = callee.server;
  send_step_surely(callee.peer, device_, message, std::make_shared<const PackedStep>());
}

absl::Status StepClient::take_answer(PeerProcess& peer, const StepMessage& message, View lent) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = calls_.find(message.call);
  if (found == calls_.end()) return absl::OkStatus();  // its deadline is over
  const std::shared_ptr<Call> call = found->second;
  if (call->peer.get() != &peer) {
    return absl::InvalidArgumentError("it answered a step that another was asked to run");
  }
  calls_.erase(found);
  call->answer = ArrivedStep(message, std::move(lent), peer);
  call->is_over = true;
  call->over.notify_one();
  return absl::OkStatus();
}

void StepClient::peer_ended(const PeerProcess* peer, const absl::Status& status) {
  const std::lock_guard<std::mutex> lock(mutex_);
  for (auto at = calls_.begin(); at != calls_.end();) {
    Call& call = *at->second;
    if (call.peer.get() != peer) {
      ++at;
      continue;
    }
    call.status = status;
    call.is_over = true;
    call.over.notify_one();
    at = calls_.erase(at);
  }
}

}  // namespace farwrite::plugin
