#include "device/control_requests.h"

#include <mutex>
#include <utility>

namespace farwrite::device {

Result<std::optional<ReplyMessage>> ControlRequests::ask(std::uint64_t number,
                                                         core::Deadline deadline,
                                                         const std::function<void()>& send,
                                                         const std::function<Status()>& ended) {
  std::unique_lock lock(mutex_);
  FARWRITE_RETURN_IF_ERROR(ended());
  const auto entry = waiting_.try_emplace(number).first;
  lock.unlock();
  send();
  lock.lock();
  Status over;
  while (!entry->second.has_value() && !deadline.expired()) {
    over = ended();
    if (!over.ok()) break;
    changed_.wait_for(lock, deadline.turn());
  }
  std::optional<ReplyMessage> reply = std::move(entry->second);
  waiting_.erase(entry);
  if (!reply.has_value() && !over.ok()) return over;
  return reply;
}

bool ControlRequests::answer(ReplyMessage& reply, const std::function<bool()>& accept) {
  const std::lock_guard lock(mutex_);
  const auto waiting = waiting_.find(reply.request);
  if (waiting == waiting_.end() || !accept()) return false;
  waiting->second = std::move(reply);
  changed_.notify_all();
  return true;
}

void ControlRequests::look_again() {
  {
    const std::lock_guard lock(mutex_);  // who waits has looked before, or will after this
  }
  changed_.notify_all();
}

}  // namespace farwrite::device
