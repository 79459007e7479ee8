#include "control/control_worker.h"

#include <utility>

#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

bool ControlWorker::call(ControlMethod method, tf::CallOptions* options,
                         const google::protobuf::Message& request,
                         google::protobuf::Message* response, tf::StatusCallback& done) {
  ControlClient::Call call;
  call.method = method;
  call.options = options;
  call.response = response;
  call.done = done;
  return cluster_->begin(task_, std::move(call), request);
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
