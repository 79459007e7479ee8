#include "control/control_cluster.h"

#include "stats/stats.h"

namespace farwrite::plugin {

// A peer that was there and has gone is not waited for.
std::shared_ptr<Route> ControlCluster::route_to(const std::string& task) const {
  return routes_().find(stock_, own_task_, task, Routes::For::kReceiving);
}

void ControlCluster::meet(const std::string& task, std::function<void(const Callee&)> met) const {
  const std::shared_ptr<Route> route = route_to(task);
  if (!met) return;
  route->when_resolved([met = std::move(met)](const Route& resolved) {
    met(Callee::of(resolved, resolved.outcome()));
  });
}

bool ControlCluster::begin(const std::string& task, Method method, tensorflow::CallOptions* options,
                           const google::protobuf::Message& request,
                           google::protobuf::Message* response,
                           const tensorflow::StatusCallback& done) const {
  const std::shared_ptr<Route> route = route_to(task);
  const Callee found = Callee::of(*route, route->state());
  if (found.peer != nullptr) {
    ControlClient::ControlCall call;
    call.peer = found.peer;
    call.task = task;
    call.server = found.server;
    call.method = method;
    call.options = options;
    call.response = response;
    call.done = done;
    if (client().begin(call, request)) return true;
  }
  count(stats().grpc_control_calls);
  return false;
}

}  // namespace farwrite::plugin
