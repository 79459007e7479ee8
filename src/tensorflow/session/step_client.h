// StepClient: the steps that this process asks masters of other processes to run.
#pragma once

#include <chrono>
#include <string>

#include "absl/status/status.h"
#include "call/call_client.h"
#include "peer/route.h"
#include "session/step_body.h"

namespace farwrite::plugin {

using Deadline = std::chrono::steady_clock::time_point;
inline constexpr Deadline kNever = Deadline::max();

// Thread-safe.
class StepClient {
 public:
  explicit StepClient(CallClient& calls) : calls_(calls) {}

  // Runs a step at the callee, which is called `name` in messages, and waits for its answer, at
  // most until the deadline; then the master is told. False: nothing was sent. Else `status` is the
  // step's, and `answer` what it gave if it is ok.
  bool run(const Callee& callee, const std::string& name, PackedStep step, Deadline deadline,
           absl::Status* status, StepBody* answer);

 private:
  CallClient& calls_;
};

}  // namespace farwrite::plugin
