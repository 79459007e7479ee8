#include "control/control_service.h"

#include <vector>

#include "base/work_queue.h"
#include "control/control_transport.h"
#include "stats/stats.h"
#include "tensorflow/core/platform/env.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

ControlService::ControlService(fw_device* device)
    : device_(device), blocking_(tf::Env::Default(), "farwrite_control") {}

void ControlService::add(std::uint64_t server, ControlledServer objects) {
  const std::lock_guard<std::mutex> lock(mutex_);
  servers_[server] = objects;
}

void ControlService::remove(std::uint64_t server) {
  const std::lock_guard<std::mutex> lock(mutex_);
  servers_.erase(server);
}

absl::Status ControlService::take(const std::shared_ptr<PeerProcess>& peer,
                                  const ControlMessage& message, View lent) {
  if (message.kind == ControlKind::kCancel) {
    cancel({peer.get(), message.call});
    return absl::OkStatus();
  }
  if (message.kind == ControlKind::kEndStream) {
    end_stream({peer.get(), message.stream});
    return absl::OkStatus();
  }
  if (message.stream != 0 && message.method != ControlMethod::kEnqueue) {
    return absl::InvalidArgumentError("it called another method than Enqueue in a stream");
  }
  CallRef call;
  StreamRef stream;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (peer->ended()) return absl::OkStatus();  // peer_ended() has been here, or comes
    const auto server = servers_.find(message.server);
    call = std::make_shared<ServedCall>(
        peer, message, server == servers_.end() ? ControlledServer() : server->second);
    if (!calls_.try_emplace({peer.get(), message.call}, call).second) {
      return absl::InvalidArgumentError("it gave two calls one number");
    }
    if (message.stream != 0) stream = stream_of({peer.get(), message.stream});
  }
  count(stats().control_calls);
  if (stream != nullptr) {
    if (stream->add(call, message, std::move(lent))) return absl::OkStatus();
    forget(*call);
    return absl::InvalidArgumentError("it left out a call of a stream");
  }
  if (lent == nullptr) {
    schedule(call, [this, call, body = std::string(message.body)] {
      begin(call, call->parse(absl::OkStatus(), body));
    });
    return absl::OkStatus();
  }
  see_body(
      message, std::move(lent), *peer,
      [this, call](std::function<void()> work) { schedule(call, std::move(work)); },
      [call] { return call->cancelled(); },
      [this, call](const absl::Status& status, std::string_view body) {
        begin(call, call->parse(status, body));
      });
  return absl::OkStatus();
}

ControlService::StreamRef ControlService::stream_of(const Key& key) {
  StreamRef& known = streams_[key];
  if (known == nullptr) {
    known = std::make_shared<ServedStream>(
        [this](const CallRef& ended, const absl::Status& status) { answer(ended, status); },
        [this](std::function<void()> work) { blocking_.Schedule(std::move(work)); });
  }
  return known;
}

void ControlService::schedule(const CallRef& call, std::function<void()> work) {
  if (call->may_block()) {
    blocking_.Schedule(std::move(work));
  } else {
    // Not on the caller's thread either: to begin a step takes as long as some ten pushes.
    WorkQueue::of_process().submit(std::move(work));
  }
}

void ControlService::begin(const CallRef& call, const absl::Status& parsed) {
  if (parsed.ok()) {
    call->begin([this, call](const absl::Status& status) { answer(call, status); });
  } else {
    answer(call, parsed);
  }
}

void ControlService::answer(const CallRef& call, const absl::Status& status) {
  forget(*call);
  ControlMessage message;
  message.kind = ControlKind::kAnswer;
  message.method = call->method();
  message.call = call->number();
  const absl::Status sent = status.ok() ? call->check_response() : status;
  message.ok = sent.ok();
  send_surely(call->peer(), device_, message,
              sent.ok() ? call->response().SerializeAsString() : encode_status(sent));
}

void ControlService::forget(const ServedCall& call) {
  const std::lock_guard<std::mutex> lock(mutex_);
  calls_.erase({call.peer().get(), call.number()});
}

void ControlService::cancel(const Key& key) {
  CallRef call;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = calls_.find(key);
    if (found == calls_.end()) return;  // it has been answered
    call = found->second;
  }
  // Not here: what it ends may take long.
  WorkQueue::of_process().submit([call] { call->cancel(); });
}

void ControlService::end_stream(const Key& key) {
  StreamRef stream;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = streams_.find(key);
    if (found == streams_.end()) return;
    stream = std::move(found->second);
    streams_.erase(found);
  }
  stream->end();
}

void ControlService::peer_ended(const PeerProcess* peer) {
  std::vector<CallRef> ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (auto at = calls_.lower_bound({peer, 0}); at != calls_.end() && at->first.first == peer;
         ++at) {
      ended.push_back(at->second);
    }
    for (auto at = streams_.lower_bound({peer, 0});
         at != streams_.end() && at->first.first == peer;) {
      at->second->end();
      at = streams_.erase(at);
    }
  }
  for (const CallRef& call : ended) {
    WorkQueue::of_process().submit([call] { call->cancel(); });
  }
}

}  // namespace farwrite::plugin
