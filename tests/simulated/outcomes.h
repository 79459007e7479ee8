// Outcomes: what has to be told to others once the network's lock is released.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "core/completion_state.h"
#include "core/gate.h"
#include "fabric/fabric.h"
#include "farwrite/status.h"

namespace farwrite::fabric {

// Where a link's observer is reached, unless the link has ended. Outlives the link.
struct ObserverDoor {
  LinkObserver* observer = nullptr;
  core::Gate gate;
};

// Filled under the lock, told without it: callbacks may call the network again.
class Outcomes {
 public:
  void finish(std::shared_ptr<core::CompletionState> completion, Status status) {
    if (completion != nullptr) finished_.emplace_back(std::move(completion), std::move(status));
  }
  void peer_died(std::shared_ptr<ObserverDoor> door, Status reason) {
    deaths_.emplace_back(std::move(door), std::move(reason));
  }

  void tell() {
    for (auto& [completion, status] : finished_) completion->finish(std::move(status));
    for (auto& [door, reason] : deaths_) {
      const core::Gate::Pass pass(door->gate);
      if (pass && door->observer != nullptr) door->observer->on_peer_dead(reason);
    }
    finished_.clear();
    deaths_.clear();
  }

 private:
  std::vector<std::pair<std::shared_ptr<core::CompletionState>, Status>> finished_;
  std::vector<std::pair<std::shared_ptr<ObserverDoor>, Status>> deaths_;
};

}  // namespace farwrite::fabric
