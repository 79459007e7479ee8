#include "device/control_requests.h"

#include <utility>

#include "core/interrupt.h"
#include "core/long_wait.h"
#include "core/mutex.h"

namespace farwrite::device {

Result<std::optional<ReplyMessage>> ControlRequests::ask(std::uint64_t number,
                                                         core::Deadline deadline,
                                                         const std::function<void()>& send,
                                                         const std::function<Status()>& ended,
                                                         const std::function<void()>& waits_long) {
  core::Lock lock(mutex_);
  FARWRITE_RETURN_IF_ERROR(ended());
  const auto entry = waiting_.try_emplace(number).first;
  lock.unlock();
  send();
  lock.lock();
  Status over;
  const auto settled = [&]() FW_REQUIRES(mutex_) {
    if (entry->second.has_value()) return true;
    over = ended();
    return !over.ok();
  };
  const core::Deadline quiet = core::Deadline::after(core::kLongWait);
  if (!core::Interrupt::wait(changed_, mutex_, deadline.earlier(quiet), settled) &&
      quiet.expired() && !deadline.expired()) {
    lock.unlock();
    waits_long();
    lock.lock();
    (void)core::Interrupt::wait(changed_, mutex_, deadline, settled);
  }
  std::optional<ReplyMessage> reply = std::move(entry->second);
  waiting_.erase(entry);
  if (!reply.has_value() && !over.ok()) return over;
  return reply;
}

bool ControlRequests::answer(ReplyMessage& reply, const std::function<bool()>& accept) {
  {
    const core::Lock lock(mutex_);
    const auto waiting = waiting_.find(reply.request);
    if (waiting == waiting_.end() || !accept()) return false;
    waiting->second = std::move(reply);
  }
  changed_.notify_all();
  return true;
}

void ControlRequests::look_again() {
  {
    const core::Lock lock(mutex_);  // who waits has looked before, or will after this
  }
  changed_.notify_all();
}

}  // namespace farwrite::device
