#include "step/collective_peers.h"

#include <utility>

#include "base/work_queue.h"
#include "core/mutex.h"
#include "tensor/push_message.h"

namespace farwrite::plugin {
namespace {

void push_step_failed(const Route& route, std::uint64_t sender, std::int64_t step,
                      const absl::Status& status) {
  if (route.outcome() != Route::State::kPush || route.reach().loopback) return;
  const std::string why = encode_failure(status);
  PushMessage message;
  message.kind = PushKind::kStepFailed;
  message.receiver = collective_space(route.server());
  message.sender = sender;
  message.step = step;
  message.payload = why;
  (void)route.reach().process->send(encode(message));  // it has gone if this fails
}

}  // namespace

void CollectivePeers::begin(std::int64_t step) {
  const core::Lock lock(mutex_);
  CollectiveStep& begun = steps_[step];
  begun.begun = true;
  begun.failure = absl::OkStatus();
  begun.cache = nullptr;
}

void CollectivePeers::add(const std::shared_ptr<Routes>& routes, std::int64_t step,
                          const std::string& task) {
  CollectiveStep failed;
  {
    const core::Lock lock(mutex_);
    const auto [found, is_new] = steps_.try_emplace(step);
    CollectiveStep& known = found->second;
    known.tasks.insert(task);
    if (is_new) keep_few(step);
    if (known.failure.ok()) return;
    failed = known;
  }
  tell(routes, step, failed, task);
}

void CollectivePeers::fail(const std::shared_ptr<Routes>& routes, std::int64_t step,
                           const absl::Status& status, const Cache& cache, const std::string& own) {
  CollectiveStep failed;
  {
    const core::Lock lock(mutex_);
    CollectiveStep& known = steps_[step];
    known.failure = status;
    known.cache = cache;
    known.own = own;
    failed = known;
  }
  for (const std::string& task : failed.tasks) tell(routes, step, failed, task);
}

void CollectivePeers::keep_few(std::int64_t awaited) {
  awaited_.push_back(awaited);
  if (awaited_.size() <= kStepsRemembered) return;
  const auto oldest = steps_.find(awaited_.front());
  awaited_.pop_front();
  if (oldest != steps_.end() && !oldest->second.begun) steps_.erase(oldest);
}

void CollectivePeers::end(std::int64_t step) {
  const core::Lock lock(mutex_);
  steps_.erase(step);
}

void CollectivePeers::tell(const std::shared_ptr<Routes>& routes, std::int64_t step,
                           const CollectiveStep& failed, const std::string& task) {
  // Not here: who aborts may hold locks of TensorFlow's, and who asks is a thread of gRPC's.
  WorkQueue::of_process().submit(
      [routes, step, task, cache = failed.cache, own = failed.own, failure = failed.failure] {
        routes->find(cache, own, task, Routes::For::kReceiving)
            ->when_resolved([server = routes->server(), step, failure](const Route& resolved) {
              push_step_failed(resolved, server, step, failure);
            });
      });
}

}  // namespace farwrite::plugin
