#include "call/call_client.h"

#include <utility>
#include <vector>

#include "base/work_queue.h"
#include "core/mutex.h"

namespace farwrite::plugin {

bool CallClient::begin(Call call, const CallBody& body, const std::function<bool()>& written) {
  const auto begun = std::make_shared<PendingCall>(std::move(call));
  const Number number = last_.fetch_add(1) + 1;
  CallMessage message;
  message.call = number;
  message.method = begun->method;
  message.server = begun->server;
  message.stream = begun->stream;
  message.position = begun->position;
  bool dropped = false;
  bool registered = false;
  const absl::Status sent = send_call(*begun->peer, device_, message, body, [&] {
    if (written && !written()) {
      dropped = true;
      return false;
    }
    const core::Lock lock(mutex_);
    calls_.emplace(number, begun);
    if (begun->numbered) begun->numbered(number);
    registered = true;
    return true;
  });
  if (dropped) return true;
  if (!sent.ok()) return registered && take(number) == nullptr;  // has it ended meanwhile?
  // The peer may have ended before it could be known that a caller waits, and the call may have
  // been cancelled before the peer knew of it.
  if (begun->peer->ended()) {
    if (CallRef ended = take(number)) end_soon(std::move(ended), begun->peer->gone());
  }
  if (begun->cancelled.load()) tell_cancelled(number, *begun);
  return true;
}

CallClient::CallRef CallClient::take(Number number) {
  const core::Lock lock(mutex_);
  const auto found = calls_.find(number);
  if (found == calls_.end()) return nullptr;
  CallRef call = std::move(found->second);
  calls_.erase(found);
  call->over.store(true);
  return call;
}

void CallClient::end_soon(CallRef call, absl::Status status) {
  WorkQueue::of_process().submit(
      [call = std::move(call), status = std::move(status)] { call->done(status, nullptr); });
}

void CallClient::tell_cancelled(Number number, const PendingCall& call) {
  CallMessage message;
  message.kind = CallKind::kCancel;
  message.method = call.method;
  message.call = number;
  message.server = call.server;
  send_surely(call.peer, device_, message, {});
}

void CallClient::end_stream(std::shared_ptr<PeerProcess> peer, std::uint64_t stream) {
  CallMessage message;
  message.kind = CallKind::kEndStream;
  message.method = Method::kEnqueue;
  message.stream = stream;
  send_surely(std::move(peer), device_, message, {});
}

void CallClient::cancel(Number number, const absl::Status& why) {
  const CallRef call = take(number);
  if (call == nullptr) return;
  call->cancelled.store(true);
  tell_cancelled(number, *call);
  call->done(why, nullptr);
}

absl::Status CallClient::take_answer(PeerProcess& peer, const CallMessage& message,
                                     RemoteBytes lent) {
  CallRef call;
  {
    const core::Lock lock(mutex_);
    const auto found = calls_.find(message.call);
    if (found == calls_.end()) return absl::OkStatus();  // cancelled meanwhile
    if (found->second->peer.get() != &peer) {
      return absl::InvalidArgumentError("it answered a call that was made to another");
    }
    call = found->second;
  }
  const auto answer = std::make_shared<ArrivedCall>(message, std::move(lent));
  answer->see([](std::function<void()> work) { WorkQueue::of_process().submit(std::move(work)); },
              [call] { return call->over.load(); },
              [this, answer, number = message.call](absl::Status status) {
                const CallRef ended = take(number);
                if (ended == nullptr) return;  // cancelled, or the peer has ended
                if (status.ok() && !answer->message().ok) status = decode_status(answer->head());
                ended->done(std::move(status), answer);
              });
  return absl::OkStatus();
}

void CallClient::peer_ended(const PeerProcess* peer, const absl::Status& status) {
  std::vector<CallRef> ended;
  {
    const core::Lock lock(mutex_);
    for (auto at = calls_.begin(); at != calls_.end();) {
      if (at->second->peer.get() != peer) {
        ++at;
        continue;
      }
      at->second->over.store(true);
      ended.push_back(std::move(at->second));
      at = calls_.erase(at);
    }
  }
  for (CallRef& call : ended) end_soon(std::move(call), status);
}

}  // namespace farwrite::plugin
