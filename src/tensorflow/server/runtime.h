// Runtime: what the plug-in has once a process: the peers, and who takes what they send. Made by
// the first server, or the first session of a target of ours; never destroyed, because TensorFlow's
// own threads outlive everything.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "control/control_receiver.h"
#include "farwrite/c_api.h"
#include "peer/peers.h"
#include "session/step_receiver.h"
#include "tensor/receive.h"

namespace farwrite::plugin {

class Runtime {
 public:
  // The runtime of this process, opening its device at first, on `own_host` if FARWRITE_LISTEN says
  // nothing else; peers' messages name it by `task`. A forked child gets one of its own.
  static absl::Status open(const std::string& own_host, const std::string& task, Runtime** runtime);
  // Null before open().
  static Runtime* current();

  Peers& peers() { return peers_; }
  ArrivalTable& arrivals() { return pushes_.arrivals(); }
  ControlReceiver& control() { return control_; }
  StepReceiver& steps() { return steps_; }

 private:
  Runtime(fw_device* device, const std::string& own_host);
  // From time to time, for as long as the process lives.
  void look_after();

  PushReceiver pushes_;
  ControlReceiver control_;
  StepReceiver steps_;
  Peers peers_;
};

}  // namespace farwrite::plugin
