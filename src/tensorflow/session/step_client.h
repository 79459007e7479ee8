// StepClient: the steps that this process has asked masters of other processes to run.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "farwrite/c_api.h"
#include "peer/peer_process.h"
#include "peer/route.h"
#include "session/step_transport.h"

namespace farwrite::plugin {

// Thread-safe.
class StepClient {
 public:
  explicit StepClient(fw_device* device) : device_(device) {}

  // Runs a step at the callee, which is called `name` in messages, and waits for its answer, at
  // most until the deadline; then the master is told. False: nothing was sent. Else `status` is the
  // step's, and `answer` what it gave if it is ok.
  bool run(const Callee& callee, const std::string& name, const PackedStep& step, Deadline deadline,
           absl::Status* status, StepBody* answer);

  // On a thread of the peer's channel. An error: the peer broke the protocol.
  absl::Status take_answer(PeerProcess& peer, const StepMessage& message, View lent);
  // Ends every step that runs at this peer.
  void peer_ended(const PeerProcess* peer, const absl::Status& status);

 private:
  using Number = std::uint64_t;
  struct Call {
    std::shared_ptr<PeerProcess> peer;
    std::condition_variable over;
    bool is_over = false;  // under the client's mutex, and the rest
    absl::Status status;
    ArrivedStep answer;
  };

  // What the master answered.
  static absl::Status read(ArrivedStep& arrived, Deadline deadline, StepBody* answer);
  void cancel(const Callee& callee, Number number);

  fw_device* const device_;
  std::mutex mutex_;
  Number last_ = 0;
  std::unordered_map<Number, std::shared_ptr<Call>> calls_;
};

}  // namespace farwrite::plugin
