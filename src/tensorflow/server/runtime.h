// Runtime: what the plug-in has once a process: the peers, and who takes what they send. Made by
// the first server, or the first session of a target of ours; never destroyed, because TensorFlow's
// own threads outlive everything.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "call/call_receiver.h"
#include "control/control_client.h"
#include "control/control_service.h"
#include "farwrite/c_api.h"
#include "peer/peers.h"
#include "session/step_client.h"
#include "session/step_service.h"
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
  ControlClient& control_client() { return control_client_; }
  ControlService& control_service() { return control_service_; }
  StepClient& step_client() { return step_client_; }
  StepService& step_service() { return step_service_; }

 private:
  Runtime(fw_device* device, const std::string& own_host);
  // From time to time, for as long as the process lives.
  void look_after();

  PushReceiver pushes_;
  CallReceiver calls_;
  ControlClient control_client_;
  ControlService control_service_;
  StepClient step_client_;
  StepService step_service_;
  Peers peers_;
};

}  // namespace farwrite::plugin
