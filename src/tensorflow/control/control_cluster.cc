#include "control/control_cluster.h"

#include "server/runtime.h"
#include "stats/stats.h"

namespace farwrite::plugin {

ControlClient& ControlCluster::client() const { return runtime_->control_client(); }

bool ControlCluster::find(const std::string& task, ControlClient::Call* call) const {
  const std::shared_ptr<Route> route =
      routes_().find(stock_, own_task_, task, Routes::For::kSending);
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
