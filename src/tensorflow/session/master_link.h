// MasterLink: how this process, as a client of sessions, reaches the process of a master that it
// knows by the address of its gRPC server alone.
//
// It meets the worker of that address, as two tasks of a cluster meet, and gets a route to it. It
// needs no server in this process.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "core/mutex.h"
#include "peer/route.h"
#include "session/step_client.h"
#include "tensorflow/core/distributed_runtime/worker_cache.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace farwrite::plugin {

// Thread-safe. One for an address, and it lives as long as the process.
class MasterLink {
 public:
  // What a client calls itself to the worker that it meets. One name for all of them, so that a
  // server keeps a bounded number of introductions.
  static constexpr char kClient[] = "a session's client";

  // The one to `address`, "host:port". `peers` and `steps` are the process's.
  static MasterLink* to(const std::string& address, const tensorflow::RPCOptions& options,
                        Peers& peers, StepClient& steps);

  // "grpc+farwrite://host:port", for messages.
  const std::string& name() const { return name_; }
  StepClient& steps() const { return steps_; }
  // How the master is reached now. Begins a meeting where there was none, where the channel has
  // ended, and some time after a meeting that failed.
  std::shared_ptr<Route> route();
  // Waits until the route is resolved, at most so long. Meets again at once if that has failed.
  void wait(std::chrono::milliseconds at_most);

 private:
  std::shared_ptr<Route> find(bool again);
  MasterLink(const std::string& address, const tensorflow::RPCOptions& options, Peers& peers,
             StepClient& steps);

  StepClient& steps_;
  const std::string name_;
  const std::shared_ptr<tensorflow::WorkerCacheInterface> cache_;
  const std::shared_ptr<Routes> routes_;
  core::Mutex mutex_{core::LockRank::kProgram, 4};
  std::shared_ptr<Route> route_ FW_GUARDED_BY(mutex_);
  std::chrono::steady_clock::time_point begun_ FW_GUARDED_BY(mutex_);  // its meeting
};

}  // namespace farwrite::plugin
