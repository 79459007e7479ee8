#include "server/worker.h"

#include <utility>

#include "peer/meeting.h"
#include "peer/route_question.h"
#include "stats/stats.h"
#include "step/rendezvous.h"
#include "tensorflow/core/distributed_runtime/worker_env.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

void Worker::RecvBufAsync(tf::CallOptions* options, const tf::RecvBufRequest* request,
                          tf::RecvBufResponse* response, tf::StatusCallback done) {
  if (is_question(*request)) {
    RouteQuestion question;
    const absl::Status read = read_question(*request, &question);
    if (read.ok()) {
      write_answer(static_cast<RendezvousMgr*>(env_->rendezvous_mgr)->answer(question), response);
    }
    done(read);
    return;
  }
  if (!is_meeting(*request)) {
    tf::GrpcWorker::RecvBufAsync(
        options, request, response, [request, done = std::move(done)](const absl::Status& status) {
          count(stats().grpc_recv_buf_calls);
          if (status.ok()) {
            count(stats().grpc_recv_buf_bytes, static_cast<std::uint64_t>(request->num_bytes()));
          }
          done(status);
        });
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
  own.process = peers_.own();
  if (!peers_.connects_to(peer.process)) {
    write_response(own, response);
    done(absl::OkStatus());
    return;
  }
  peers_.reach(peer.task, peer.process, [own, response, done](const Reach& reach) {
    Introduction answer = own;
    answer.refusal = reach.refusal;
    write_response(answer, response);
    done(absl::OkStatus());
  });
}

}  // namespace farwrite::plugin
