#include "control/eager_client.h"

#include <utility>

#include "absl/synchronization/notification.h"
#include "core/mutex.h"
#include "tensorflow/core/protobuf/eager_service.pb.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

tf::StatusCallback EagerClient::keeping(tf::StatusCallback done) const {
  Ref();
  return [this, done = std::move(done)](const absl::Status& status) {
    done(status);
    Unref();
  };
}

std::shared_ptr<EnqueueStream> EagerClient::stream_of(Context context) {
  const core::Lock lock(mutex_);
  std::shared_ptr<EnqueueStream>& stream = streams_[context];
  if (stream == nullptr) {
    stream = std::make_shared<EnqueueStream>(cluster_, task_, stock_.GetNewRef());
  }
  return stream;
}

void EagerClient::EnqueueAsync(tf::CallOptions* options, const tf::eager::EnqueueRequest* request,
                               tf::eager::EnqueueResponse* response, tf::StatusCallback done) {
  done = keeping(std::move(done));
  if (cluster_->begin(task_, Method::kEnqueue, options, *request, response, done)) return;
  stock_->EnqueueAsync(options, request, response, std::move(done));
}

void EagerClient::RunComponentFunctionAsync(tf::CallOptions* options,
                                            const tf::eager::RunComponentFunctionRequest* request,
                                            tf::eager::RunComponentFunctionResponse* response,
                                            tf::StatusCallback done) {
  done = keeping(std::move(done));
  if (cluster_->begin(task_, Method::kRunComponentFunction, options, *request, response, done)) {
    return;
  }
  stock_->RunComponentFunctionAsync(options, request, response, std::move(done));
}

void EagerClient::StreamingEnqueueAsync(bool enable_streaming_enqueue, tf::CallOptions* options,
                                        const tf::eager::EnqueueRequest* request,
                                        tf::eager::EnqueueResponse* response,
                                        tf::StatusCallback done) {
  if (enable_streaming_enqueue && allow_multiple_pending_requests()) {
    stream_of(request->context_id())->send(*request, response, keeping(std::move(done)));
    return;
  }
  // As stock: the thread that wants no stream waits here.
  absl::Status answer;
  absl::Notification answered;
  EnqueueAsync(options, request, response, [&answer, &answered](const absl::Status& status) {
    answer = status;
    answered.Notify();
  });
  answered.WaitForNotification();
  done(answer);
}

void EagerClient::CloseContextAsync(const tf::eager::CloseContextRequest* request,
                                    tf::eager::CloseContextResponse* response,
                                    tf::StatusCallback done) {
  done = keeping(std::move(done));
  std::shared_ptr<EnqueueStream> stream;
  {
    const core::Lock lock(mutex_);
    const auto found = streams_.find(request->context_id());
    if (found != streams_.end()) {
      stream = std::move(found->second);
      streams_.erase(found);
    }
  }
  // By gRPC if that has a stream to end; it complains of a context of which it knows no stream.
  const bool by_grpc = stream == nullptr || stream->by_grpc();
  if (stream != nullptr) stream->close();
  if (!by_grpc &&
      cluster_->begin(task_, Method::kCloseContext, nullptr, *request, response, done)) {
    return;
  }
  stock_->CloseContextAsync(request, response, std::move(done));
}

absl::Status EagerClientCache::GetClient(const std::string& target,
                                         tf::core::RefCountPtr<tf::eager::EagerClient>* client) {
  if (target == cluster_->own_task()) return stock_->GetClient(target, client);
  const core::Lock lock(mutex_);
  tf::core::RefCountPtr<EagerClient>& known = clients_[target];
  if (known == nullptr) {
    EagerClient::Stock stock;
    const absl::Status made = stock_->GetClient(target, &stock);
    if (!made.ok()) {
      clients_.erase(target);
      return made;
    }
    known.reset(new EagerClient(cluster_, target, std::move(stock)));
    cluster_->meet(target);
  }
  known->Ref();
  client->reset(known.get());
  return absl::OkStatus();
}

}  // namespace farwrite::plugin
