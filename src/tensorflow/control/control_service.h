// ControlService: answers the control calls of peers, by the objects that gRPC would call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "call/call_service.h"
#include "control/control_call.h"
#include "control/served_stream.h"
#include "core/mutex.h"
#include "farwrite/c_api.h"
#include "peer/peer_process.h"
#include "tensorflow/core/platform/unbounded_work_queue.h"

namespace farwrite::plugin {

// Thread-safe; lives as long as the process.
class ControlService final : public CallHandler {
 public:
  explicit ControlService(CallService& calls);

  // A server of this process, by its incarnation.
  void add(std::uint64_t server, ControlledServer objects);
  void remove(std::uint64_t server);

  std::shared_ptr<ServedCall> make(const std::shared_ptr<PeerProcess>& peer,
                                   const CallMessage& message) override;
  absl::Status begin(const std::shared_ptr<ServedCall>& call, const CallMessage& message,
                     RemoteBytes lent) override;
  void end_stream(const PeerProcess* peer, std::uint64_t stream) override;
  void peer_ended(const PeerProcess* peer) override;

 private:
  using CallRef = std::shared_ptr<ControlCall>;
  using StreamRef = std::shared_ptr<ServedStream>;
  // The peer's number for the stream.
  using Key = std::pair<const PeerProcess*, std::uint64_t>;

  // Makes it at first.
  StreamRef stream_of(const Key& stream);
  // Runs `work` on another thread, which it may block if the call may.
  void schedule(const CallRef& call, std::function<void()> work);
  void seen(const CallRef& call, const absl::Status& parsed);
  void answer(const CallRef& call, const absl::Status& status);

  CallService& calls_;
  tensorflow::UnboundedWorkQueue blocking_;
  core::Mutex mutex_{core::LockRank::kProgram, 1};
  std::unordered_map<std::uint64_t, ControlledServer> servers_ FW_GUARDED_BY(mutex_);
  std::map<Key, StreamRef> streams_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::plugin
