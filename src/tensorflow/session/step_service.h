// StepService: runs the steps that clients in other processes ask for, by the master that gRPC
// would call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "farwrite/c_api.h"
#include "peer/peer_process.h"
#include "session/step_transport.h"
#include "tensorflow/core/distributed_runtime/master.h"

namespace farwrite::plugin {

// Thread-safe.
class StepService {
 public:
  explicit StepService(fw_device* device) : device_(device) {}

  // A server of this process, by its incarnation. Steps that name no timeout have `timeout_ms`;
  // 0 is none.
  void add(std::uint64_t server, tensorflow::Master* master, std::int64_t timeout_ms);
  void remove(std::uint64_t server);

  // A call, or a cancellation; on a thread of the peer's channel. An error: the peer broke the
  // protocol.
  absl::Status take(const std::shared_ptr<PeerProcess>& peer, const StepMessage& message,
                    View lent);
  // Cancels what it has called, as gRPC does: nothing awaits the answers.
  void peer_ended(const PeerProcess* peer);

 private:
  struct Call;
  using CallRef = std::shared_ptr<Call>;
  using Key = std::pair<const PeerProcess*, std::uint64_t>;
  struct Served {
    tensorflow::Master* master = nullptr;
    std::int64_t timeout_ms = 0;
  };

  void run(const CallRef& call);
  void answer(const CallRef& call, const absl::Status& status);

  fw_device* const device_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Served> servers_;
  std::map<Key, CallRef> calls_;
};

}  // namespace farwrite::plugin
