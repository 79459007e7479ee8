#include "collective/collective_call.h"

#include <utility>

#include "base/work_queue.h"
#include "core/mutex.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

CollectiveCall::CollectiveCall(tf::CancellationManager* abortion,
                               tf::CancellationManager* cancellation, tf::StatusCallback done)
    : done_(std::move(done)) {
  watches_[0].manager = abortion;
  watches_[1].manager = cancellation;
}

void CollectiveCall::watch() {
  // The thread that cancels meanwhile waits in unwatch(), and so does `done`.
  const core::Lock lock(mutex_);
  for (CancellationHook& watch : watches_) {
    if (watch.manager == nullptr) continue;
    const tf::CancellationToken token = watch.manager->get_cancellation_token();
    const bool watched = watch.manager->RegisterCallback(token, [self = shared_from_this()] {
      self->settle(absl::CancelledError("Farwrite: the collective was cancelled"));
    });
    if (!watched) {
      settle(absl::CancelledError("Farwrite: the collective was cancelled before"));
      return;
    }
    watch.token = token;
  }
}

void CollectiveCall::unwatch() {
  const core::Lock lock(mutex_);
  for (CancellationHook& watch : watches_) {
    if (watch.token == tf::CancellationManager::kInvalidToken) continue;
    // Does not wait for a callback that runs: it may be the one that ended the call.
    watch.manager->TryDeregisterCallback(watch.token);
    watch.token = tf::CancellationManager::kInvalidToken;
  }
}

void CollectiveCall::settle(const absl::Status& status) {
  if (settled_.exchange(true)) return;
  // Not here: the caller may be a thread of a channel, or hold locks of TensorFlow's.
  WorkQueue::of_process().submit([self = shared_from_this(), status] { self->finish(status); });
}

void CollectiveCall::settle_here(const absl::Status& status) {
  if (!settled_.exchange(true)) finish(status);
}

tf::StatusCallback CollectiveCall::take_over() {
  if (settled_.exchange(true)) return nullptr;
  unwatch();
  return std::move(done_);
}

void CollectiveCall::finish(const absl::Status& status) {
  unwatch();
  ended(status);
  const tf::StatusCallback done = std::move(done_);
  done(status);
}

}  // namespace farwrite::plugin
