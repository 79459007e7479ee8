// WorkerCache: a server's or a session's workers: gRPC's, whose log of transfers also has what the
// plug-in moves, and whose calls of every step may go over Farwrite.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "control/control_worker.h"
#include "core/mutex.h"
#include "tensorflow/core/distributed_runtime/worker_cache_wrapper.h"

namespace farwrite::plugin {

// A meeting of the collectives' may be under way with what it wraps after it has been deleted.
class WorkerCache final : public tensorflow::WorkerCacheWrapper {
 public:
  // `control` is null if all calls go over gRPC.
  WorkerCache(std::shared_ptr<tensorflow::WorkerCacheInterface> stock,
              std::shared_ptr<const ControlCluster> control)
      : tensorflow::WorkerCacheWrapper(stock.get()),
        stock_(std::move(stock)),
        control_(std::move(control)) {}
  ~WorkerCache() override;

  tensorflow::WorkerInterface* GetOrCreateWorker(const std::string& target) override;
  void ReleaseWorker(const std::string& target, tensorflow::WorkerInterface* worker) override;

  absl::Status GetEagerClientCache(
      std::unique_ptr<tensorflow::eager::EagerClientCache>* cache) override;

  // Counts, as stock does: several steps may want a log at once.
  void SetLogging(bool active) override;
  void ClearLogs() override;
  bool RetrieveLogs(std::int64_t step_id, tensorflow::StepStats* stats) override;

 private:
  // Whether calls to this task may go over Farwrite: TensorFlow calls its own worker directly.
  bool carries(const std::string& target) const {
    return control_ != nullptr && target != control_->own_task();
  }

  const std::shared_ptr<tensorflow::WorkerCacheInterface> stock_;
  const std::shared_ptr<const ControlCluster> control_;
  core::Mutex mutex_{core::LockRank::kProgram};
  int wanted_ FW_GUARDED_BY(mutex_) = 0;
};

}  // namespace farwrite::plugin
