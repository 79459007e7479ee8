// StepService: runs the steps that clients in other processes ask for, by the master that gRPC
// would call.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "absl/status/status.h"
#include "call/call_service.h"
#include "core/mutex.h"
#include "tensorflow/core/distributed_runtime/master.h"

namespace farwrite::plugin {

// Thread-safe.
class StepService final : public CallHandler {
 public:
  explicit StepService(CallService& calls) : calls_(calls) {
    calls.handle(Method::kRunStep, *this);
  }

  // A server of this process, by its incarnation. Steps that name no timeout have `timeout_ms`;
  // 0 is none.
  void add(std::uint64_t server, tensorflow::Master* master, std::int64_t timeout_ms);
  void remove(std::uint64_t server);

  std::shared_ptr<ServedCall> make(const std::shared_ptr<PeerProcess>& peer,
                                   const CallMessage& message) override;
  absl::Status begin(const std::shared_ptr<ServedCall>& call, const CallMessage& message,
                     RemoteBytes lent) override;

 private:
  class ServedStep;
  using StepRef = std::shared_ptr<ServedStep>;
  struct ServedMaster {
    tensorflow::Master* master = nullptr;
    std::int64_t timeout_ms = 0;
  };

  void run(const StepRef& step, const absl::Status& seen);
  void answer(const StepRef& step, const absl::Status& status);

  CallService& calls_;
  core::Mutex mutex_{core::LockRank::kProgram, 1};
  std::unordered_map<std::uint64_t, ServedMaster> servers_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::plugin
