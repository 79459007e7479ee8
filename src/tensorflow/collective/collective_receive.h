// CollectiveReceive: one tensor that a collective waits for, into memory that is there already.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "collective/collective_call.h"
#include "core/mutex.h"
#include "peer/route.h"
#include "tensor/arrival_table.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// The destination's memory lives until no byte moves into it any more, even when the step has been
// aborted meanwhile.
class CollectiveReceive final : public CollectiveCall, public Waiter {
 public:
  struct AwaitedTensor {
    ArrivalTable* arrivals = nullptr;
    StepId step;  // of collective_space()
    std::string key;
    tensorflow::Tensor destination;
    ByStock by_stock;
    Routes* routes = nullptr;
    Routes::Cache cache;  // of the group's cluster
    std::string task;     // this one
  };

  CollectiveReceive(tensorflow::CancellationManager* abortion,
                    tensorflow::CancellationManager* cancellation, tensorflow::StatusCallback done,
                    AwaitedTensor incoming);

  // `expected` is the sending server's incarnation as the group knows it, 0 if it does not.
  // `first`: of all that the step's collectives receive from the task.
  void begin(const std::shared_ptr<Route>& route, std::uint64_t expected, bool first);

  // Waiter.
  void deliver(ArrivedTensor arrival) override;
  void fail(const absl::Status& status) override;
  bool given_up() const override { return settled(); }
  void overdue() override;

 private:
  void route_resolved(const Route& route, std::uint64_t expected, bool first);
  void ask_soon();
  void ended(const absl::Status& status) override;
  std::shared_ptr<CollectiveReceive> self();
  void pull();
  void take(ArrivedTensor arrival);
  // Waits for the peer if the arrival is not ready.
  absl::Status copy(ArrivedTensor arrival, tensorflow::Tensor destination);

  ArrivalTable& arrivals_;
  const StepId step_;
  const std::string key_;
  const ByStock by_stock_;
  const std::int64_t started_;  // see TransferLog::start()
  std::string fabric_;          // if it is
  Routes* const routes_;
  const Routes::Cache cache_;
  const std::string task_;
  std::shared_ptr<Route> route_;
  core::Mutex mutex_{core::LockRank::kProgram, 2};
  tensorflow::Tensor destination_ FW_GUARDED_BY(mutex_);  // gone once it has ended
};

}  // namespace farwrite::plugin
