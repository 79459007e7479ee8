// ControlService: answers the control calls of peers, by the objects that gRPC would call.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "control/control_message.h"
#include "control/served_call.h"
#include "control/served_stream.h"
#include "farwrite/c_api.h"
#include "peer/peer_process.h"
#include "tensorflow/core/platform/unbounded_work_queue.h"

namespace farwrite::plugin {

// Thread-safe; lives as long as the process.
class ControlService {
 public:
  explicit ControlService(fw_device* device);

  // A server of this process, by its incarnation.
  void add(std::uint64_t server, ControlledServer objects);
  void remove(std::uint64_t server);

  // All but answers; on a thread of the peer's channel. An error: the peer broke the protocol.
  absl::Status take(const std::shared_ptr<PeerProcess>& peer, const ControlMessage& message,
                    View lent);
  // Cancels what it has called, as gRPC does: nothing awaits the answers.
  void peer_ended(const PeerProcess* peer);

 private:
  using CallRef = std::shared_ptr<ServedCall>;
  using StreamRef = std::shared_ptr<ServedStream>;
  // Of a call, or of a stream: the peer's number for it.
  using Key = std::pair<const PeerProcess*, std::uint64_t>;

  void cancel(const Key& call);
  void end_stream(const Key& stream);
  // Under mutex_. Makes it at first.
  StreamRef stream_of(const Key& stream);
  // Runs `work` on another thread, which it may block if the call may.
  void schedule(const CallRef& call, std::function<void()> work);
  void begin(const CallRef& call, const absl::Status& parsed);
  void answer(const CallRef& call, const absl::Status& status);
  void forget(const ServedCall& call);

  fw_device* const device_;
  tensorflow::UnboundedWorkQueue blocking_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, ControlledServer> servers_;
  std::map<Key, CallRef> calls_;
  std::map<Key, StreamRef> streams_;
};

}  // namespace farwrite::plugin
