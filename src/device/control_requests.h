// ControlRequests: what this side has asked one peer, and waits to be answered.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "core/deadline.h"
#include "core/mutex.h"
#include "device/control_messages.h"
#include "farwrite/status.h"

namespace farwrite::device {

// Thread-safe.
class ControlRequests {
 public:
  // The number of the next request.
  std::uint64_t next() { return next_.fetch_add(1); }

  // Sends request `number` by `send`, and waits for its answer; nothing, once the deadline has
  // passed. `ended` says why no answer will come any more; ok while one may. It is called under the
  // mutex. `waits_long` is called once the wait has taken core::kLongWait. Not on the loop's
  // thread, which brings the answer.
  Result<std::optional<ReplyMessage>> ask(
      std::uint64_t number, core::Deadline deadline, const std::function<void()>& send,
      const std::function<Status()>& ended, const std::function<void()>& waits_long = [] {});
  // Hands an answer to the thread that waits for it, if `accept`, which is called under the mutex
  // before that thread sees the answer, says so. False if nothing takes it.
  bool answer(ReplyMessage& reply, const std::function<bool()>& accept);
  // `ended` may say something else now.
  void look_again();

 private:
  std::atomic<std::uint64_t> next_{1};
  core::Mutex mutex_{core::LockRank::kDevice};
  core::CondVar changed_;
  std::map<std::uint64_t, std::optional<ReplyMessage>> waiting_ FW_GUARDED_BY(mutex_);  // by number
};

}  // namespace farwrite::device
