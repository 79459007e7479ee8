#include "control/control_cluster.h"

#include "server/runtime.h"
#include "stats/stats.h"

namespace farwrite::plugin {

ControlClient& ControlCluster::client() const { return runtime_->control_client(); }

std::shared_ptr<Route> ControlCluster::route_to(const std::string& task) const {
  return routes_().find(stock_, own_task_, task, Routes::For::kSending);
}

void ControlCluster::meet(const std::string& task) const { route_to(task); }

bool ControlCluster::find(const std::string& task, ControlClient::Call* call) const {
  const std::shared_ptr<Route> route = route_to(task);
  if (route->state() != Route::State::kPush || route->stale()) return false;
  call->peer = route->reach().process;
  call->task = task;
  call->server = route->server();
  return call->peer != nullptr;
}

bool ControlCluster::begin(const std::string& task, ControlClient::Call call,
                           const google::protobuf::Message& request) const {
  if (find(task, &call) && client().begin(call, request)) return true;
  count(stats().grpc_control_calls);
  return false;
}

}  // namespace farwrite::plugin
