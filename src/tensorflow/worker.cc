#include "worker.h"

#include <utility>

#include "meeting.h"
#include "rendezvous.h"
#include "runtime.h"
#include "tensorflow/core/distributed_runtime/worker_env.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

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
  Routes& routes = static_cast<RendezvousMgr*>(env_->rendezvous_mgr)->routes();
  // Before the answer, after which the peer expects pushes.
  routes.introduced(peer);
  Introduction own;
  own.server = routes.server();
  own.process = runtime_->peers().own();
  if (!runtime_->peers().connects_to(peer.process)) {
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
