// CollectivePeers: which tasks exchange tensors with one server in a step's collectives, or wait
// for it. If this server's part of the step fails, each of these tasks gets a StepFailed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/status/status.h"
#include "core/mutex.h"
#include "peer/route.h"

namespace farwrite::plugin {

// The receiver that an arrival table's steps of collectives are named by: a server's incarnation,
// told apart from that of its rendezvous, whose steps may have the same numbers and end at other
// times.
inline std::uint64_t collective_space(std::uint64_t server) { return ~server; }

// Thread-safe. A task takes part if this server sends to it or receives from it, and if it sends a
// RouteQuestion, which may come before this server has begun the step, or after the step failed.
class CollectivePeers {
 public:
  using Cache = std::shared_ptr<tensorflow::WorkerCacheInterface>;

  // The step's collectives begin here, maybe again.
  void begin(std::int64_t step);
  // The task takes part. If the step has failed here, the task gets a StepFailed.
  void add(const std::shared_ptr<Routes>& routes, std::int64_t step, const std::string& task);
  // For all tasks that take part. `cache`: of the step's cluster, where this task is `own`.
  void fail(const std::shared_ptr<Routes>& routes, std::int64_t step, const absl::Status& status,
            const Cache& cache, const std::string& own);
  // The step is cleaned up here.
  void end(std::int64_t step);

 private:
  // A task may ask about a step that never begins here. Of those the oldest are forgotten.
  static constexpr std::size_t kStepsRemembered = 4096;

  struct CollectiveStep {
    absl::Status failure;
    bool begun = false;  // then end() follows
    Cache cache;         // if it has failed
    std::string own;     // likewise
    std::set<std::string> tasks;
  };

  // Under mutex_. `awaited`: a step that has not begun.
  void keep_few(std::int64_t awaited) FW_REQUIRES(mutex_);
  static void tell(const std::shared_ptr<Routes>& routes, std::int64_t step,
                   const CollectiveStep& failed, const std::string& task);

  core::Mutex mutex_{core::LockRank::kProgram, 1};
  std::map<std::int64_t, CollectiveStep> steps_ FW_GUARDED_BY(mutex_);
  std::deque<std::int64_t> awaited_
      FW_GUARDED_BY(mutex_);  // of steps_, before they began; the oldest first
};

}  // namespace farwrite::plugin
