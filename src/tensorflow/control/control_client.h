// ControlClient: the control calls of this process to its peers, as TensorFlow makes them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "call/call_client.h"
#include "google/protobuf/message.h"
#include "peer/peer_process.h"
#include "tensorflow/core/distributed_runtime/call_options.h"

namespace farwrite::plugin {

// Thread-safe.
class ControlClient {
 public:
  explicit ControlClient(CallClient& calls) : calls_(calls) {}

  struct ControlCall {
    std::shared_ptr<PeerProcess> peer;
    std::string task;          // of the callee, for messages
    std::uint64_t server = 0;  // its incarnation
    Method method = Method::kRunGraph;
    std::uint64_t stream = 0;  // as in CallMessage
    std::uint64_t position = 0;
    tensorflow::CallOptions* options = nullptr;     // null: no cancellation
    google::protobuf::Message* response = nullptr;  // filled before `done`
    std::function<void(const absl::Status&)> done;  // once, under no lock
  };

  // Begins the call. False, also for a call with a deadline or of more than 2 GB: nothing was sent,
  // and nothing will be. `request` may go at `done`; `written` as in CallClient::begin().
  bool begin(const ControlCall& call, const google::protobuf::Message& request,
             const std::function<bool()>& written = {});

  // Drops what the peer has not begun of a stream; its calls are answered nevertheless.
  void end_stream(std::shared_ptr<PeerProcess> peer, std::uint64_t stream) {
    calls_.end_stream(std::move(peer), stream);
  }

 private:
  CallClient& calls_;
};

}  // namespace farwrite::plugin
