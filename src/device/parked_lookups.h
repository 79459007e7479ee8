// ParkedLookups: lookups of one peer that wait for a name to be published.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "core/deadline.h"
#include "device/control_messages.h"

namespace farwrite::device {

// Only on the control loop's thread, so without a mutex.
class ParkedLookups {
 public:
  // How long it waits at most; nothing if it does not wait, or if too many of the peer's do.
  std::optional<std::chrono::nanoseconds> park(const LookupMessage& lookup);
  // Lets go of those that `answer` answers.
  void answer(const std::function<bool(const LookupMessage&)>& answer);
  // Lets go of those that have waited long enough.
  std::vector<LookupMessage> take_expired();

 private:
  struct Parked {
    LookupMessage lookup;
    core::Deadline deadline = core::Deadline::never();
  };
  std::vector<Parked> parked_;
};

}  // namespace farwrite::device
