// ControlClient: the control calls of this process to its peers that have no answer yet.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "control/control_message.h"
#include "farwrite/c_api.h"
#include "google/protobuf/message.h"
#include "peer/peer_process.h"
#include "tensorflow/core/distributed_runtime/call_options.h"

namespace farwrite::plugin {

// Thread-safe.
class ControlClient {
 public:
  explicit ControlClient(fw_device* device) : device_(device) {}

  struct Call {
    std::shared_ptr<PeerProcess> peer;
    std::string task;          // of the callee, for messages
    std::uint64_t server = 0;  // its incarnation
    ControlMethod method = ControlMethod::kRunGraph;
    std::uint64_t stream = 0;  // as in ControlMessage
    std::uint64_t position = 0;
    tensorflow::CallOptions* options = nullptr;     // null: no cancellation
    google::protobuf::Message* response = nullptr;  // filled before `done`
    std::function<void(const absl::Status&)> done;  // once, under no lock
  };

  // Begins the call. False, also for a call with a deadline or of more than 2 GB: nothing was sent,
  // and nothing will be.
  bool begin(const Call& call, const google::protobuf::Message& request);

  // Drops what the peer has not begun of a stream; its calls are answered nevertheless.
  void end_stream(std::shared_ptr<PeerProcess> peer, std::uint64_t stream);

  // On a thread of the peer's channel. An error: the peer broke the protocol.
  absl::Status take_answer(PeerProcess& peer, const ControlMessage& message, View lent);
  // Ends every call to this peer.
  void peer_ended(const PeerProcess* peer, const absl::Status& status);

 private:
  using Number = std::uint64_t;
  struct Pending : Call {
    explicit Pending(const Call& call) : Call(call) {}
    std::atomic<bool> cancelled{false};
  };
  using CallRef = std::shared_ptr<Pending>;

  // Null if it has ended.
  CallRef take(Number number);
  // Tells the peer, and ends the call here at once.
  void cancel(Number number);
  void end(Number number, const absl::Status& status);
  void tell_cancelled(Number number, const Pending& call);
  static void finish(Pending& call, const absl::Status& status);

  fw_device* const device_;
  std::mutex mutex_;
  Number last_ = 0;
  std::unordered_map<Number, CallRef> calls_;
};

}  // namespace farwrite::plugin
