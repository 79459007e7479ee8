// PendingOperations: a channel's operations that were posted and have not ended.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "core/completion_state.h"
#include "core/mutex.h"
#include "farwrite/status.h"

namespace farwrite::device {

// So that none of them outlives what would end it. Holds none of them alive. Thread-safe.
class PendingOperations {
 public:
  enum class Kind {
    kUntilTheEnd,   // of the peer, or of the channel
    kAwaitedReads,  // a peer that has closed normally still answers them
  };

  void add(const std::shared_ptr<core::CompletionState>& operation, Kind kind);
  // Ends all of them with `reason`, or all but the awaited reads.
  void abandon(const Status& reason, bool reads_too);
  // Whether one has not ended that is no awaited read.
  bool any() const;

 private:
  struct CompletionList {
    std::vector<std::weak_ptr<core::CompletionState>> entries;
    std::size_t prune_at = 64;
  };

  mutable core::Mutex mutex_{core::LockRank::kDeviceTables};
  CompletionList operations_ FW_GUARDED_BY(mutex_);
  CompletionList reads_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::device
