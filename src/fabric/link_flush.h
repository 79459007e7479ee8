// LinkFlush: a flush of every lane of a link, over when each lane that was asked has answered.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "core/completion.h"
#include "core/completion_state.h"
#include "core/mutex.h"

namespace farwrite::fabric {

// Thread-safe. The outcome is the first failure.
class LinkFlush {
 public:
  // Asks every lane: `ask_lane(lane)` asks one, which calls asked() and later answered(), or does
  // neither because none of its writes is unanswered.
  template <typename Lanes, typename Ask>
  static Completion of(const Lanes& lanes, Ask ask_lane) {
    const auto flush = std::make_shared<LinkFlush>();
    for (const auto& lane : lanes) ask_lane(*lane, flush);
    flush->answered(Status());
    return Completion(flush->completion_);
  }

  void asked() {
    const core::Lock lock(mutex_);
    ++unanswered_;
  }
  void answered(const Status& status) {
    Status outcome;
    {
      const core::Lock lock(mutex_);
      if (first_failure_.ok()) first_failure_ = status;
      if (--unanswered_ > 0) return;
      outcome = first_failure_;
    }
    completion_->finish(std::move(outcome));
  }

 private:
  core::Mutex mutex_{core::LockRank::kFabric};
  std::size_t unanswered_ FW_GUARDED_BY(mutex_) =
      1;  // of() itself, until every lane has been asked
  Status first_failure_ FW_GUARDED_BY(mutex_);
  const std::shared_ptr<core::CompletionState> completion_ =
      std::make_shared<core::CompletionState>();
};

}  // namespace farwrite::fabric
