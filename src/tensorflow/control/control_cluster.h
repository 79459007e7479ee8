// ControlCluster: how a server calls the other tasks of one cluster.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "control/control_client.h"
#include "google/protobuf/message.h"
#include "peer/route.h"
#include "tensorflow/core/distributed_runtime/worker_cache.h"

namespace farwrite::plugin {

// Thread-safe.
class ControlCluster {
 public:
  // `own_task`: as the cluster names the server. `routes`: of the server.
  ControlCluster(ControlClient& client, std::string own_task, std::function<Routes&()> routes,
                 std::shared_ptr<tensorflow::WorkerCacheInterface> stock)
      : client_(client),
        own_task_(std::move(own_task)),
        routes_(std::move(routes)),
        stock_(std::move(stock)) {}

  const std::string& own_task() const { return own_task_; }
  tensorflow::WorkerCacheInterface& stock() const { return *stock_; }
  ControlClient& client() const { return client_; }

  // Meets the task, so that the calls which follow find a channel. `met`, if given, is called once,
  // maybe at once, when the two have met or cannot.
  void meet(const std::string& task, std::function<void(const Callee&)> met = nullptr) const;
  // Begins a call of the task over Farwrite. False, and counted: it must go over gRPC; nothing
  // of it was sent, nothing will be, and `done` is as it was.
  bool begin(const std::string& task, Method method, tensorflow::CallOptions* options,
             const google::protobuf::Message& request, google::protobuf::Message* response,
             const tensorflow::StatusCallback& done) const;

 private:
  std::shared_ptr<Route> route_to(const std::string& task) const;

  ControlClient& client_;
  const std::string own_task_;
  const std::function<Routes&()> routes_;
  const std::shared_ptr<tensorflow::WorkerCacheInterface> stock_;
};

}  // namespace farwrite::plugin
