#include "call/call_service.h"

#include <string>
#include <vector>

#include "base/work_queue.h"
#include "core/mutex.h"

namespace farwrite::plugin {

absl::Status CallService::take(const std::shared_ptr<PeerProcess>& peer, const CallMessage& message,
                               RemoteBytes lent) {
  const Key key(peer.get(), message.call);
  const auto handler = handlers_.find(message.method);
  if (handler == handlers_.end()) {
    return absl::InvalidArgumentError("it called the unknown method " +
                                      std::to_string(static_cast<int>(message.method)));
  }
  if (message.kind == CallKind::kEndStream) {
    handler->second->end_stream(peer.get(), message.stream);
    return absl::OkStatus();
  }
  if (message.kind == CallKind::kCancel) {
    CallRef call;
    {
      const core::Lock lock(mutex_);
      const auto found = calls_.find(key);
      if (found != calls_.end()) call = found->second;  // else it has been answered
    }
    if (call != nullptr) cancel_soon(std::move(call));
    return absl::OkStatus();
  }
  const CallRef call = handler->second->make(peer, message);
  {
    const core::Lock lock(mutex_);
    if (peer->ended()) return absl::OkStatus();  // peer_ended() has been here, or comes
    if (!calls_.try_emplace(key, call).second) {
      return absl::InvalidArgumentError("it gave two calls one number");
    }
  }
  absl::Status begun = handler->second->begin(call, message, std::move(lent));
  if (!begun.ok()) forget(*call);
  return begun;
}

void CallService::answer(const ServedCall& call, bool ok, CallBody body) {
  forget(call);
  CallMessage message;
  message.kind = CallKind::kAnswer;
  message.method = call.method();
  message.call = call.number();
  message.ok = ok;
  send_surely(call.peer(), device_, message, std::move(body));
}

void CallService::forget(const ServedCall& call) {
  const core::Lock lock(mutex_);
  calls_.erase({call.peer().get(), call.number()});
}

// What it ends may take long.
void CallService::cancel_soon(CallRef call) {
  WorkQueue::of_process().submit([call = std::move(call)] { call->cancel(); });
}

void CallService::peer_ended(const PeerProcess* peer) {
  std::vector<CallRef> ended;
  {
    const core::Lock lock(mutex_);
    for (auto at = calls_.lower_bound({peer, 0}); at != calls_.end() && at->first.first == peer;
         ++at) {
      ended.push_back(at->second);
    }
  }
  for (CallRef& call : ended) cancel_soon(std::move(call));
  for (const auto& [method, handler] : handlers_) handler->peer_ended(peer);
}

}  // namespace farwrite::plugin
