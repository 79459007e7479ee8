// WorkerCache: a server's or a session's gRPC workers, whose log of transfers also has what the
// plug-in moves.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "tensorflow/core/distributed_runtime/worker_cache_wrapper.h"

namespace farwrite::plugin {

// TensorFlow deletes the server's own when its cluster is another; a meeting of the collectives'
// may still be under way with what it wraps.
class WorkerCache final : public tensorflow::WorkerCacheWrapper {
 public:
  explicit WorkerCache(std::shared_ptr<tensorflow::WorkerCacheInterface> stock)
      : tensorflow::WorkerCacheWrapper(stock.get()), stock_(std::move(stock)) {}
  ~WorkerCache() override;

  // Counts, as stock does: several steps may want a log at once.
  void SetLogging(bool active) override;
  void ClearLogs() override;
  bool RetrieveLogs(std::int64_t step_id, tensorflow::StepStats* stats) override;

 private:
  const std::shared_ptr<tensorflow::WorkerCacheInterface> stock_;
  std::mutex mutex_;
  int wanted_ = 0;
};

}  // namespace farwrite::plugin
