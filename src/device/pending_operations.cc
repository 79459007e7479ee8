#include "device/pending_operations.h"

#include <algorithm>

#include "core/mutex.h"

namespace farwrite::device {

void PendingOperations::add(const std::shared_ptr<core::CompletionState>& operation, Kind kind) {
  CompletionList& list = kind == Kind::kAwaitedReads ? reads_ : operations_;
  // Destroyed after the lock: this may be the last to let go, and callbacks own anything.
  std::vector<std::shared_ptr<core::CompletionState>> looked_at;
  const core::Lock lock(mutex_);
  if (list.entries.size() >= list.prune_at) {
    std::erase_if(list.entries, [&](const auto& weak) {
      looked_at.push_back(weak.lock());
      return looked_at.back() == nullptr || looked_at.back()->done();
    });
    list.prune_at = std::max<std::size_t>(64, list.entries.size() * 2);
  }
  list.entries.push_back(operation);
}

void PendingOperations::abandon(const Status& reason, bool reads_too) {
  std::vector<std::weak_ptr<core::CompletionState>> abandoned;
  {
    const core::Lock lock(mutex_);
    abandoned.swap(operations_.entries);
    if (reads_too) {
      abandoned.insert(abandoned.end(), reads_.entries.begin(), reads_.entries.end());
      reads_.entries.clear();
    }
  }
  for (const auto& weak : abandoned) {
    if (const auto state = weak.lock()) state->abandon(reason);
  }
}

bool PendingOperations::any() const {
  std::vector<std::weak_ptr<core::CompletionState>> operations;
  {
    const core::Lock lock(mutex_);
    operations = operations_.entries;
  }
  return std::any_of(operations.begin(), operations.end(), [](const auto& weak) {
    const auto state = weak.lock();
    return state != nullptr && !state->done();
  });
}

}  // namespace farwrite::device
