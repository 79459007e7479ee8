#include "control/control_worker.h"

#include <utility>

#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/protobuf/worker.pb.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

void ControlWorker::RegisterGraphAsync(const tf::RegisterGraphRequest* request,
                                       tf::RegisterGraphResponse* response,
                                       tf::StatusCallback done) {
  if (cluster_->begin(task_, Method::kRegisterGraph, nullptr, *request, response, done)) {
    return;
  }
  stock_->RegisterGraphAsync(request, response, std::move(done));
}

void ControlWorker::DeregisterGraphAsync(const tf::DeregisterGraphRequest* request,
                                         tf::DeregisterGraphResponse* response,
                                         tf::StatusCallback done) {
  if (cluster_->begin(task_, Method::kDeregisterGraph, nullptr, *request, response, done)) {
    return;
  }
  stock_->DeregisterGraphAsync(request, response, std::move(done));
}

void ControlWorker::RunGraphAsync(tf::CallOptions* options, tf::RunGraphRequestWrapper* request,
                                  tf::MutableRunGraphResponseWrapper* response,
                                  tf::StatusCallback done) {
  if (cluster_->begin(task_, Method::kRunGraph, options, request->ToProto(),
                      get_proto_from_wrapper(response), done)) {
    return;
  }
  stock_->RunGraphAsync(options, request, response, std::move(done));
}

void ControlWorker::CleanupGraphAsync(const tf::CleanupGraphRequest* request,
                                      tf::CleanupGraphResponse* response, tf::StatusCallback done) {
  if (cluster_->begin(task_, Method::kCleanupGraph, nullptr, *request, response, done)) {
    return;
  }
  stock_->CleanupGraphAsync(request, response, std::move(done));
}

}  // namespace farwrite::plugin
