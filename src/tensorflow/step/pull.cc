#include "step/pull.h"

#include <utility>

#include "core/mutex.h"
#include "tensorflow/core/distributed_runtime/request_id.h"
#include "tensorflow/core/distributed_runtime/worker_interface.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

Pull::Pull(Cache cache, tf::DeviceBase* device, const tf::AllocatorAttributes& attributes,
           std::int64_t step, const tf::RendezvousInterface::ParsedKey& key, Done done)
    : cache_(std::move(cache)), done_(std::move(done)) {
  tf::DeviceNameUtils::GetTaskName(key.src, &task_);
  request_.set_step_id(step);
  request_.set_rendezvous_key(key.FullKey().data(), key.FullKey().size());
  request_.set_request_id(tf::GetUniqueRequestId());
  response_.InitAlloc(device, attributes);
}

void Pull::begin() {
  worker_ = cache_->GetOrCreateWorker(task_);
  if (worker_ == nullptr) {
    done_(absl::InternalError("No worker known as " + task_), tf::Tensor(), false);
    return;
  }
  worker_->RecvTensorAsync(
      &options_, &request_, &response_, [self = shared_from_this()](const absl::Status& status) {
        self->cache_->ReleaseWorker(self->task_, self->worker_);
        const Done done = std::move(self->done_);
        done(status, self->response_.tensor(), self->response_.metadata().is_dead());
      });
  // A call can be cancelled only once it has begun.
  bool cancelled = false;
  {
    const core::Lock lock(mutex_);
    began_ = true;
    cancelled = cancelled_;
  }
  if (cancelled) options_.StartCancel();
}

void Pull::cancel() {
  {
    const core::Lock lock(mutex_);
    cancelled_ = true;
    if (!began_) return;
  }
  options_.StartCancel();
}

}  // namespace farwrite::plugin
