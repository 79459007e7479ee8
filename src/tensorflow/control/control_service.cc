#include "control/control_service.h"

#include <utility>

#include "base/work_queue.h"
#include "core/mutex.h"
#include "stats/stats.h"
#include "tensorflow/core/platform/env.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

ControlService::ControlService(CallService& calls)
    : calls_(calls), blocking_(tf::Env::Default(), "farwrite_control") {
  for (const Method method :
       {Method::kRegisterGraph, Method::kDeregisterGraph, Method::kRunGraph, Method::kCleanupGraph,
        Method::kEnqueue, Method::kRunComponentFunction, Method::kCloseContext}) {
    calls.handle(method, *this);
  }
}

void ControlService::add(std::uint64_t server, ControlledServer objects) {
  const core::Lock lock(mutex_);
  servers_[server] = objects;
}

void ControlService::remove(std::uint64_t server) {
  const core::Lock lock(mutex_);
  servers_.erase(server);
}

std::shared_ptr<ServedCall> ControlService::make(const std::shared_ptr<PeerProcess>& peer,
                                                 const CallMessage& message) {
  const core::Lock lock(mutex_);
  const auto server = servers_.find(message.server);
  return std::make_shared<ControlCall>(
      peer, message, server == servers_.end() ? ControlledServer() : server->second);
}

absl::Status ControlService::begin(const std::shared_ptr<ServedCall>& made,
                                   const CallMessage& message, RemoteBytes lent) {
  const auto call = std::static_pointer_cast<ControlCall>(made);
  count(stats().control_calls);
  if (message.stream != 0) {
    if (message.method != Method::kEnqueue) {
      return absl::InvalidArgumentError("it called another method than Enqueue in a stream");
    }
    const StreamRef stream = stream_of({call->peer().get(), message.stream});
    if (stream->add(call, message, std::move(lent))) return absl::OkStatus();
    return absl::InvalidArgumentError("it left out a call of a stream");
  }
  const auto arrived = std::make_shared<ArrivedCall>(message, std::move(lent));
  const auto see = [this, call, arrived] {
    arrived->see([this, call](std::function<void()> work) { schedule(call, std::move(work)); },
                 [call] { return call->cancelled(); },
                 [this, call, arrived](const absl::Status& status) {
                   seen(call, call->parse(status, *arrived));
                 });
  };
  if (arrived->is_lent()) {
    see();
  } else {
    schedule(call, see);
  }
  return absl::OkStatus();
}

ControlService::StreamRef ControlService::stream_of(const Key& key) {
  const core::Lock lock(mutex_);
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

void ControlService::seen(const CallRef& call, const absl::Status& parsed) {
  if (parsed.ok()) {
    call->begin([this, call](const absl::Status& status) { answer(call, status); });
  } else {
    answer(call, parsed);
  }
}

void ControlService::answer(const CallRef& call, const absl::Status& status) {
  const absl::Status sent = status.ok() ? call->check_response() : status;
  // The response is the call's.
  calls_.answer(*call, sent.ok(),
                sent.ok() ? CallBody::of(std::shared_ptr<const google::protobuf::Message>(
                                call, &call->response()))
                          : CallBody::of(sent));
}

void ControlService::end_stream(const PeerProcess* peer, std::uint64_t number) {
  StreamRef stream;
  {
    const core::Lock lock(mutex_);
    const auto found = streams_.find({peer, number});
    if (found == streams_.end()) return;
    stream = std::move(found->second);
    streams_.erase(found);
  }
  stream->end();
}

void ControlService::peer_ended(const PeerProcess* peer) {
  const core::Lock lock(mutex_);
  for (auto at = streams_.lower_bound({peer, 0});
       at != streams_.end() && at->first.first == peer;) {
    at->second->end();
    at = streams_.erase(at);
  }
}

}  // namespace farwrite::plugin
