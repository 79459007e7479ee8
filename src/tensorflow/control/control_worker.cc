#include "control/control_worker.h"

#include "control/control_client.h"
#include "server/runtime.h"
#include "stats/stats.h"
#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

bool ControlWorker::call(ControlMethod method, tf::CallOptions* options,
                         const google::protobuf::Message& request,
                         google::protobuf::Message* response, tf::StatusCallback& done) {
  const std::shared_ptr<Route> route =
      cluster_->routes().find(cluster_->stock, cluster_->own_task, task_, Routes::For::kSending);
  const bool leads =
      route->state() == Route::State::kPush && !route->stale() && route->reach().process != nullptr;
  if (leads) {
    ControlClient::Call call;
    call.peer = route->reach().process;
    call.task = task_;
    call.server = route->server();
    call.method = method;
    call.options = options;
    call.response = response;
    call.done = done;
    if (cluster_->runtime->control_client().begin(call, request)) return true;
  }
  count(stats().grpc_control_calls);
  return false;
}

void ControlWorker::RegisterGraphAsync(const tf::RegisterGraphRequest* request,
                                       tf::RegisterGraphResponse* response,
                                       tf::StatusCallback done) {
  if (call(ControlMethod::kRegisterGraph, nullptr, *request, response, done)) return;
  stock_->RegisterGraphAsync(request, response, std::move(done));
}

void ControlWorker::DeregisterGraphAsync(const tf::DeregisterGraphRequest* request,
                                         tf::DeregisterGraphResponse* response,
                                         tf::StatusCallback done) {
  if (call(ControlMethod::kDeregisterGraph, nullptr, *request, response, done)) return;
  stock_->DeregisterGraphAsync(request, response, std::move(done));
}

void ControlWorker::RunGraphAsync(tf::CallOptions* options, tf::RunGraphRequestWrapper* request,
                                  tf::MutableRunGraphResponseWrapper* response,
                                  tf::StatusCallback done) {
  const tf::RunGraphRequest& message = request->ToProto();
  if (call(ControlMethod::kRunGraph, options, message, get_proto_from_wrapper(response), done)) {
    return;
  }
  stock_->RunGraphAsync(options, request, response, std::move(done));
}

void ControlWorker::CleanupGraphAsync(const tf::CleanupGraphRequest* request,
                                      tf::CleanupGraphResponse* response, tf::StatusCallback done) {
  if (call(ControlMethod::kCleanupGraph, nullptr, *request, response, done)) return;
  stock_->CleanupGraphAsync(request, response, std::move(done));
}

}  // namespace farwrite::plugin
