#include "box/settled.h"

#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

namespace farwrite::box {

Status wait_until_settled(const Completion& completion) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<Status> outcome;
  };
  const auto shared = std::make_shared<Shared>();
  completion.on_settled([shared](const Status& status) {
    const std::lock_guard lock(shared->mutex);
    shared->outcome = status;
    shared->changed.notify_one();
  });
  std::unique_lock lock(shared->mutex);
  shared->changed.wait(lock, [&] { return shared->outcome.has_value(); });
  return *shared->outcome;
}

}  // namespace farwrite::box
