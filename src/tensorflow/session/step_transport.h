// How the body of a step leaves this process, and how it is seen at the other end.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "base/status_bridge.h"
#include "farwrite/c_api.h"
#include "peer/peer_process.h"
#include "session/step_body.h"
#include "session/step_message.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// Sends the message with the body: inside, or lent from registered memory, where it is written
// once. Fails without harm: kResourceExhausted if registered memory has no room, else because the
// peer has gone or what it has not taken fills the queue.
absl::Status send_step(PeerProcess& peer, fw_device* device, StepMessage message,
                       const PackedStep& body);
// For what a caller waits for: tries again until it has been sent or the peer has ended. An answer
// for which there is no room becomes an error.
void send_step_surely(std::shared_ptr<PeerProcess> peer, fw_device* device,
                      const StepMessage& message, std::shared_ptr<const PackedStep> body);

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();

// A body that has come.
class ArrivedStep {
 public:
  ArrivedStep() = default;
  // Keeps a copy of what is inside.
  ArrivedStep(const StepMessage& message, View lent, PeerProcess& peer);

  // Its view is of this object.
  StepMessage message() const;
  bool is_lent() const { return lent_ != nullptr; }
  // Maps what was lent, or reads it if another host lent it. May wait for the peer, so not on its
  // poller; kDeadlineExceeded at the deadline. At most once, before the rest.
  absl::Status see(Deadline deadline);
  std::string_view table() const;
  // What the table lists, in memory of this process.
  absl::Status own_tensors(const StepTable& table, std::vector<NamedTensor>* tensors) const;
  // The same as views of what was lent, where it was. Nothing may write into a view of a peer's
  // memory, and its buffer says so.
  absl::Status viewed_tensors(const StepTable& table, std::vector<NamedTensor>* tensors) const;

 private:
  StepMessage message_;  // but for what is inside
  std::string inside_;
  View lent_;
  std::uint32_t read_lane_ = 0;
  tensorflow::Tensor seen_;  // what was lent, as bytes
  bool is_own_ = false;      // this process', because it was read
};

}  // namespace farwrite::plugin
