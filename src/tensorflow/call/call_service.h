// CallService: answers the calls of peers, by those who handle their methods.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "call/call_body.h"
#include "core/mutex.h"
#include "farwrite/c_api.h"
#include "peer/peer_process.h"

namespace farwrite::plugin {

// One call of a peer while this process works on it. Thread-safe.
class ServedCall {
 public:
  ServedCall(std::shared_ptr<PeerProcess> peer, const CallMessage& message)
      : peer_(std::move(peer)), number_(message.call), method_(message.method) {}
  virtual ~ServedCall() = default;

  const std::shared_ptr<PeerProcess>& peer() const { return peer_; }
  std::uint64_t number() const { return number_; }
  Method method() const { return method_; }
  // Even before it has begun. Maybe for long, and not on a thread of the channel.
  virtual void cancel() = 0;

 private:
  const std::shared_ptr<PeerProcess> peer_;
  const std::uint64_t number_;
  const Method method_;
};

// Makes and begins the calls of some methods. All on a thread of the peer's channel.
class CallHandler {
 public:
  virtual ~CallHandler() = default;
  virtual std::shared_ptr<ServedCall> make(const std::shared_ptr<PeerProcess>& peer,
                                           const CallMessage& message) = 0;
  // What make() made is known by now, until it is answered. An error: the peer broke the protocol.
  virtual absl::Status begin(const std::shared_ptr<ServedCall>& call, const CallMessage& message,
                             RemoteBytes lent) = 0;
  virtual void end_stream(const PeerProcess* /*peer*/, std::uint64_t /*stream*/) {}
  virtual void peer_ended(const PeerProcess* /*peer*/) {}
};

// Thread-safe; lives as long as the process.
class CallService {
 public:
  explicit CallService(fw_device* device) : device_(device) {}

  // Before the first peer. `handler` outlives this.
  void handle(Method method, CallHandler& handler) { handlers_[method] = &handler; }

  // All but answers; on a thread of the peer's channel. An error: the peer broke the protocol.
  absl::Status take(const std::shared_ptr<PeerProcess>& peer, const CallMessage& message,
                    RemoteBytes lent);
  // Ends the call. `body` is the answer, or that of an error if not `ok`.
  void answer(const ServedCall& call, bool ok, CallBody body);
  // Cancels what it has called, as gRPC does: no caller awaits the answers.
  void peer_ended(const PeerProcess* peer);

 private:
  using CallRef = std::shared_ptr<ServedCall>;
  // The peer's number for the call.
  using Key = std::pair<const PeerProcess*, std::uint64_t>;

  static void cancel_soon(CallRef call);
  void forget(const ServedCall& call);

  fw_device* const device_;
  std::map<Method, CallHandler*> handlers_;
  core::Mutex mutex_{core::LockRank::kProgram, 1};
  std::map<Key, CallRef> calls_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::plugin
