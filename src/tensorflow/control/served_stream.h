// ServedStream: the Enqueue calls of one stream of a peer's, executed one after the other in the
// order in which they were sent, however large they are.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "call/call_body.h"
#include "control/control_call.h"
#include "core/mutex.h"

namespace farwrite::plugin {

// Thread-safe.
class ServedStream : public std::enable_shared_from_this<ServedStream> {
 public:
  using CallRef = std::shared_ptr<ControlCall>;
  // Called once for each call, with what came of it.
  using Answer = std::function<void(const CallRef& call, const absl::Status& status)>;

  // `schedule`: to threads that may be blocked.
  ServedStream(Answer answer, Schedule schedule);

  // The next call. What is lent is not read before its turn, so that the lease bounds what a peer
  // has queued here. False: it is not the call of this position.
  bool add(CallRef call, const CallMessage& message, RemoteBytes lent);
  // What has not begun is answered as cancelled.
  void end();

 private:
  struct QueuedCall {
    CallRef call;
    std::shared_ptr<ArrivedCall> arrived;
  };
  // Executes the head of the queue, and then the next, until none is left.
  void run();
  // Executes the head, and returns whether the next may follow at once.
  bool execute(QueuedCall next);
  void finish(const CallRef& call, absl::Status status);

  const Answer answer_;
  const Schedule schedule_;
  const std::uint64_t executor_;
  core::Mutex mutex_{core::LockRank::kProgram};
  std::deque<QueuedCall> queue_ FW_GUARDED_BY(mutex_);
  std::uint64_t next_ FW_GUARDED_BY(mutex_) = 0;
  bool running_ FW_GUARDED_BY(mutex_) = false;
  bool ended_ FW_GUARDED_BY(mutex_) = false;
};

}  // namespace farwrite::plugin
