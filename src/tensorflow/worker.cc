#include "worker.h"

#include <string>
#include <utility>

#include "meeting.h"
#include "rendezvous.h"
#include "runtime.h"
#include "stats.h"
#include "tensorflow/core/distributed_runtime/message_wrappers.h"
#include "tensorflow/core/distributed_runtime/worker_env.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

void Worker::RunGraphAsync(tf::CallOptions* options, tf::RunGraphRequestWrapper* request,
                           tf::MutableRunGraphResponseWrapper* response, tf::StatusCallback done) {
  // The other wrappers are calls from a master in this process, which cost gRPC nothing.
  const auto* const remote = dynamic_cast<const tf::ProtoRunGraphRequest*>(request);
  if (remote == nullptr) {
    tf::GrpcWorker::RunGraphAsync(options, request, response, std::move(done));
    return;
  }
  for (std::size_t i = 0; i < remote->num_sends(); ++i) {
    tf::Tensor fed;
    if (!remote->SendValue(i, &fed).ok()) continue;
    count(stats().grpc_feeds);
    count(stats().grpc_feed_bytes, fed.TotalBytes());
  }
  tf::GrpcWorker::RunGraphAsync(
      options, request, response, [response, done = std::move(done)](const absl::Status& status) {
        for (std::size_t i = 0; status.ok() && i < response->num_recvs(); ++i) {
          tf::Tensor fetched;
          if (!response->RecvValue(i, &fetched).ok()) continue;
          count(stats().grpc_fetches);
          count(stats().grpc_fetch_bytes, fetched.TotalBytes());
        }
        done(status);
      });
}

void Worker::RecvBufAsync(tf::CallOptions* options, const tf::RecvBufRequest* request,
                          tf::RecvBufResponse* response, tf::StatusCallback done) {
  if (!is_meeting(*request)) {
    tf::GrpcWorker::RecvBufAsync(options, request, response, std::move(done));
    return;
  }
  Introduction peer;
  const absl::Status read = read_request(*request, &peer);
  if (!read.ok()) {
    done(read);
    return;
  }
  Introduction own;
  own.server = static_cast<RendezvousMgr*>(env_->rendezvous_mgr)->server();
  own.process = runtime_->peers().own();
  if (!runtime_->peers().connects_to(ProcessId::of(peer.process))) {
    write_response(own, response);
    done(absl::OkStatus());
    return;
  }
  runtime_->peers().reach(peer.process, [own, response, done](const Reach& reach) {
    Introduction answer = own;
    answer.refusal = reach.refusal;
    write_response(answer, response);
    done(absl::OkStatus());
  });
}

}  // namespace farwrite::plugin
