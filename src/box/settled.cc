#include "box/settled.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace farwrite::box {

Status wait_until_settled(const Completion& completion) {
  return wait_until_settled(completion, core::Deadline::never(), nullptr, {});
}

Status wait_until_settled(const Completion& completion, const core::Deadline& deadline,
                          std::shared_ptr<const void> owner, std::string_view peer) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Status> outcome;
  };
  const auto shared = std::make_shared<Shared>();
  completion.on_settled([shared, owner = std::move(owner)](const Status& status) {
    const std::lock_guard lock(shared->mutex);
    shared->outcome = status;
    shared->changed.notify_one();
  });
  std::unique_lock lock(shared->mutex);
  while (!shared->outcome.has_value()) {
    if (deadline.expired()) {
      return Status::error(StatusCode::kDeadlineExceeded, {.operation = "read", .peer = peer},
                           "the server has not sent the bytes in time",
                           "look whether the server runs, or allow more time");
    }
    shared->changed.wait_for(lock, deadline.turn());
  }
  return *shared->outcome;
}

}  // namespace farwrite::box
