// ControlService: answers the control calls of peers, by the worker that gRPC would call.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

#include "absl/status/status.h"
#include "control/control_message.h"
#include "farwrite/c_api.h"
#include "peers/peer_process.h"
#include "tensorflow/core/distributed_runtime/rpc/grpc_worker_service.h"

namespace farwrite::plugin {

// Thread-safe.
class ControlService {
 public:
  explicit ControlService(fw_device* device) : device_(device) {}

  // A server of this process, by its incarnation.
  void add(std::uint64_t server, tensorflow::GrpcWorker* worker);
  void remove(std::uint64_t server);

  // A call, or a cancellation; on a thread of the peer's channel. An error: the peer broke the
  // protocol.
  absl::Status take(const std::shared_ptr<PeerProcess>& peer, const ControlMessage& message,
                    View lent);
  // Cancels what it has called, as gRPC does: nobody awaits the answers.
  void peer_ended(const PeerProcess* peer);

 private:
  class Call;
  using Key = std::pair<const PeerProcess*, std::uint64_t>;

  void run(const std::shared_ptr<Call>& call, std::string_view body);
  void answer(Call& call, const absl::Status& status);

  fw_device* const device_;
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, tensorflow::GrpcWorker*> workers_;
  std::map<Key, std::shared_ptr<Call>> calls_;
};

}  // namespace farwrite::plugin
