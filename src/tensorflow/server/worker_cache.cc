#include "server/worker_cache.h"

#include "control/eager_client.h"
#include "core/mutex.h"
#include "stats/transfer_log.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

WorkerCache::~WorkerCache() {
  for (; wanted_ > 0; --wanted_) TransferLog::of_process().no_longer_want();
}

tf::WorkerInterface* WorkerCache::GetOrCreateWorker(const std::string& target) {
  tf::WorkerInterface* const worker = tf::WorkerCacheWrapper::GetOrCreateWorker(target);
  if (worker == nullptr || !carries(target)) return worker;
  control_->meet(target);
  return new ControlWorker(control_, target, worker);
}

void WorkerCache::ReleaseWorker(const std::string& target, tf::WorkerInterface* worker) {
  if (carries(target)) {
    tf::WorkerCacheInterface::ReleaseWorker(target, worker);  // deletes it
  } else {
    tf::WorkerCacheWrapper::ReleaseWorker(target, worker);
  }
}

absl::Status WorkerCache::GetEagerClientCache(std::unique_ptr<tf::eager::EagerClientCache>* cache) {
  const absl::Status made = tf::WorkerCacheWrapper::GetEagerClientCache(cache);
  if (made.ok() && control_ != nullptr) {
    *cache = std::make_unique<EagerClientCache>(control_, std::move(*cache));
  }
  return made;
}

void WorkerCache::SetLogging(bool active) {
  tf::WorkerCacheWrapper::SetLogging(active);
  const core::Lock lock(mutex_);
  if (active) {
    ++wanted_;
    TransferLog::of_process().want();
  } else if (wanted_ > 0) {  // a master may end what another one began
    --wanted_;
    TransferLog::of_process().no_longer_want();
  }
}

void WorkerCache::ClearLogs() {
  tf::WorkerCacheWrapper::ClearLogs();
  TransferLog::of_process().clear();
}

bool WorkerCache::RetrieveLogs(std::int64_t step_id, tf::StepStats* stats) {
  // First, because it replaces `stats`.
  const bool by_stock = tf::WorkerCacheWrapper::RetrieveLogs(step_id, stats);
  return TransferLog::of_process().retrieve(step_id, stats) || by_stock;
}

}  // namespace farwrite::plugin
