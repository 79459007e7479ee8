#include "device/control_requests.h"

#include <utility>

#include "core/mutex.h"

namespace farwrite::device {

Result<std::optional<ReplyMessage>> ControlRequests::ask(std::uint64_t number,
                                                         core::Deadline deadline,
                                                         const std::function<void()>& send,
                                                         const std::function<Status()>& ended) {
  core::Lock lock(mutex_);
  FARWRITE_RETURN_IF_ERROR(ended());
  const auto entry = waiting_.try_emplace(number).first;
  lock.unlock();
  send();
  lock.lock();
  Status over;
  while (!entry->second.has_value() && !deadline.expired()) {
    over = ended();
    if (!over.ok()) break;
    changed_.wait_for(mutex_, deadline.turn());
  }
  std::optional<ReplyMessage> reply = std::move(entry->second);
  waiting_.erase(entry);
  if (!reply.has_value() && !over.ok()) return over;
  return reply;
}

bool ControlRequests::answer(ReplyMessage& reply, const std::function<bool()>& accept) {
  const core::Lock lock(mutex_);
  const auto waiting = waiting_.find(reply.request);
  if (waiting == waiting_.end() || !accept()) return false;
  waiting->second = std::move(reply);
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
