#include "session/step_client.h"

#include <memory>
#include <utility>

#include "base/remote_error.h"
#include "core/mutex.h"

namespace farwrite::plugin {
namespace {

// A step that this process waits for.
class StepWait {
 public:
  CallClient::Number number = 0;  // set before the step is sent

  void end(absl::Status status, std::shared_ptr<const ArrivedCall> answer) {
    {
      const core::Lock lock(mutex_);
      status_ = std::move(status);
      answer_ = std::move(answer);
      is_over_ = true;
    }
    over_.notify_one();
  }
  // Whether it ended until then.
  bool until(Deadline deadline) {
    core::Lock lock(mutex_);
    const auto is_over = [this]() FW_REQUIRES(mutex_) { return is_over_; };
    if (deadline != kNever) return over_.wait_until(mutex_, deadline, is_over);
    over_.wait(mutex_, is_over);
    return true;
  }
  // Once it has ended, when nothing changes any more. Null: not by an answer.
  const absl::Status& status() const FW_NO_THREAD_SAFETY_ANALYSIS { return status_; }
  const ArrivedCall* answer() const FW_NO_THREAD_SAFETY_ANALYSIS { return answer_.get(); }

 private:
  core::Mutex mutex_{core::LockRank::kProgram};
  core::CondVar over_;
  bool is_over_ FW_GUARDED_BY(mutex_) = false;
  absl::Status status_ FW_GUARDED_BY(mutex_);
  std::shared_ptr<const ArrivedCall> answer_ FW_GUARDED_BY(mutex_);
};

absl::Status read(const ArrivedCall& arrived, StepBody* answer) {
  StepTable table;
  if (!decode(arrived.head(), arrived.message().body_bytes, &table)) {
    return absl::InternalError("Farwrite: the answer of a master cannot be parsed");
  }
  answer->head = std::string(table.head);
  // A program may write into what it fetched, which must not be the peer's memory.
  return own_tensors(arrived, table, &answer->tensors);
}

}  // namespace

bool StepClient::run(const Callee& callee, const std::string& name, PackedStep step,
                     Deadline deadline, absl::Status* status, StepBody* answer) {
  const auto wait = std::make_shared<StepWait>();
  CallClient::Call call;
  call.peer = callee.peer;
  call.server = callee.server;
  call.method = Method::kRunStep;
  call.numbered = [wait](CallClient::Number number) { wait->number = number; };
  call.done = [wait](absl::Status ended, std::shared_ptr<const ArrivedCall> arrived) {
    wait->end(std::move(ended), std::move(arrived));
  };
  const auto packed = std::make_shared<const PackedStep>(std::move(step));
  if (!calls_.begin(std::move(call), PackedStep::body_of(packed))) return false;
  if (!wait->until(deadline)) {
    // As gRPC says it. An answer that comes in this moment counts.
    calls_.cancel(wait->number, absl::DeadlineExceededError("Deadline Exceeded"));
    wait->until(kNever);
  }
  if (wait->answer() == nullptr) {
    *status = remote_error(name, wait->status());
  } else {
    *status = wait->status().ok() ? read(*wait->answer(), answer) : wait->status();
  }
  return true;
}

}  // namespace farwrite::plugin
