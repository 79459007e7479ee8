// CollectiveCall: what a post and a receive of a collective have in common: it ends once, by its
// own work or by the step's cancellation or abort, whichever is first.
#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "core/mutex.h"
#include "tensorflow/core/framework/cancellation.h"
#include "tensorflow/core/framework/collective.h"

namespace farwrite::plugin {

// The collective's executor and its cancellation managers live until `done` is called, and no
// longer. What goes on after that, since bytes were moving, uses nothing but the call's own.
class CollectiveCall : public std::enable_shared_from_this<CollectiveCall> {
 public:
  // Sends or receives by RecvBuf, as stock would.
  using ByStock = std::function<void(tensorflow::StatusCallback done)>;

  // `abortion` is the executor's, `cancellation` the operation's, or null.
  CollectiveCall(tensorflow::CancellationManager* abortion,
                 tensorflow::CancellationManager* cancellation, tensorflow::StatusCallback done);
  virtual ~CollectiveCall() = default;

  // From now on cancellation and abort end the call. First of all calls.
  void watch();
  bool settled() const { return settled_.load(); }
  // Ends the call: `done` follows on a thread of the runtime. Only the first time counts.
  void settle(const absl::Status& status);
  // The same on this thread, which is the runtime's and holds no lock.
  void settle_here(const absl::Status& status);
  // Ends the call without `done`, which the caller takes over; null if it is settled already.
  tensorflow::StatusCallback take_over();

 protected:
  // Before `done`, once, on a thread that holds no lock: lets go of what is the collective's.
  virtual void ended(const absl::Status& status) = 0;

 private:
  struct CancellationHook {
    tensorflow::CancellationManager* manager = nullptr;
    tensorflow::CancellationToken token = tensorflow::CancellationManager::kInvalidToken;
  };

  void unwatch();
  void finish(const absl::Status& status);

  std::atomic<bool> settled_{false};
  tensorflow::StatusCallback done_;
  core::Mutex mutex_{core::LockRank::kProgram, 2};
  std::array<CancellationHook, 2> watches_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::plugin
