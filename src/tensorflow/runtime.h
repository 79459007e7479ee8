// Runtime: what the plug-in has once a process: the device, the peers, the mailbox, the threads
// that continue a step. Made by the first server; never destroyed, because TensorFlow's own threads
// outlive everything.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "farwrite/c_api.h"
#include "mailbox.h"
#include "peer_process.h"
#include "work_queue.h"

namespace farwrite::plugin {

class Runtime {
 public:
  // The runtime of this process, opening its device at first. A forked child gets one of its own.
  static absl::Status open(Runtime** runtime);
  // Null before open().
  static Runtime* current();

  fw_device* device() const { return device_; }
  Peers& peers() { return *peers_; }
  Mailbox& mailbox() { return mailbox_; }
  // Runs `work` soon; never on the caller's thread, so that no lock of the caller is held.
  void schedule(std::function<void()> work) { queue_.submit(std::move(work)); }

 private:
  explicit Runtime(fw_device* device);

  fw_device* const device_;
  Mailbox mailbox_;
  std::unique_ptr<Peers> peers_;
  WorkQueue queue_;
};

}  // namespace farwrite::plugin
