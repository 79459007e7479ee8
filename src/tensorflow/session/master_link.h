// MasterLink: how this process, as a client of sessions, reaches the process of a master that it
// knows by the address of its gRPC server alone.
//
// It meets the worker of that address, as two tasks of a cluster meet, and gets a route to it. It
// needs no server in this process.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <string>

#include "absl/status/status.h"
#include "peers/route.h"
#include "tensorflow/core/distributed_runtime/worker_cache.h"
#include "tensorflow/core/protobuf/config.pb.h"

namespace farwrite::plugin {

class Runtime;

// Thread-safe. One for an address, and it lives as long as the process.
class MasterLink {
 public:
  // `address` is "host:port". Opens the process' device, if it has none. kInvalidArgument: one of
  // the plug-in's settings cannot be used.
  static absl::Status to(const std::string& address, const tensorflow::RPCOptions& options,
                         MasterLink** link);

  // "grpc+farwrite://host:port", for messages.
  const std::string& name() const { return name_; }
  Runtime& runtime() const { return *runtime_; }
  // How the master is reached now. Begins a meeting where there was none, where the channel has
  // ended, and some time after a meeting that failed.
  std::shared_ptr<Route> route();
  // Waits until the route is resolved, at most so long. Meets again at once if that has failed.
  void wait(std::chrono::milliseconds at_most);

 private:
  std::shared_ptr<Route> find(bool again);
  MasterLink(Runtime* runtime, const std::string& address, const tensorflow::RPCOptions& options);

  Runtime* const runtime_;
  const std::string name_;
  const std::shared_ptr<tensorflow::WorkerCacheInterface> cache_;
  const std::shared_ptr<Routes> routes_;
  std::mutex mutex_;
  std::shared_ptr<Route> route_;
  std::chrono::steady_clock::time_point begun_;  // its meeting
};

}  // namespace farwrite::plugin
