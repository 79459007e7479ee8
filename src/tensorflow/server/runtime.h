// Runtime: what the plug-in has once a process: the device, the peers, the arrival table. Made by
// the first server, or the first session of a target of ours; never destroyed, because TensorFlow's
// own threads outlive everything.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "control/control_client.h"
#include "control/control_service.h"
#include "farwrite/c_api.h"
#include "peers/peers.h"
#include "rendezvous/arrival_table.h"
#include "session/step_client.h"
#include "session/step_service.h"

namespace farwrite::plugin {

class Runtime {
 public:
  static constexpr std::uint64_t kReceiptBytes = 64;

  // The runtime of this process, opening its device at first, on `own_host` if FARWRITE_LISTEN says
  // nothing else; peers' messages name it by `task`. A forked child gets one of its own.
  static absl::Status open(const std::string& own_host, const std::string& task, Runtime** runtime);
  // Null before open().
  static Runtime* current();

  fw_device* device() const { return device_; }
  Peers& peers() { return *peers_; }
  ArrivalTable& arrival_table() { return arrival_table_; }
  ControlClient& control_client() { return control_client_; }
  ControlService& control_service() { return control_service_; }
  StepClient& step_client() { return step_client_; }
  StepService& step_service() { return step_service_; }
  // Whether FARWRITE_FABRICS names the one fabric to use: peers that cannot are an error.
  bool fabric_is_forced() const { return fabric_is_forced_; }
  // A few bytes of registered memory, to lend with what is inline: their return says that it was
  // taken. Null if there is no room.
  const void* receipt();

 private:
  Runtime(fw_device* device, const std::string& own_host);
  // From time to time, for as long as the process lives.
  void look_after();

  fw_device* const device_;
  const bool fabric_is_forced_;
  ArrivalTable arrival_table_;
  ControlClient control_client_;
  ControlService control_service_;
  StepClient step_client_;
  StepService step_service_;
  std::unique_ptr<Peers> peers_;
  std::once_flag receipt_made_;
  const void* receipt_ = nullptr;
};

}  // namespace farwrite::plugin
