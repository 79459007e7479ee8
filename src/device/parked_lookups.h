// ParkedLookups: lookups of one peer that wait for a name to be published.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <vector>

#include "core/deadline.h"
#include "device/control_messages.h"

namespace farwrite::device {

// Only on the control loop's thread, so without a mutex.
class ParkedLookups {
 public:
  // False if the lookup does not wait, or full().
  bool park(const LookupMessage& lookup);
  bool full() const { return parked_.size() >= kMostParked; }
  // Lets go of those that `answer` answers.
  void answer(const std::function<bool(const LookupMessage&)>& answer);
  // The time left to those that end within a second, each once: for a timer that then calls
  // take_expired(). Called again within a second for the others.
  std::vector<std::chrono::nanoseconds> take_last_stretches();
  // Lets go of those that have waited long enough.
  std::vector<LookupMessage> take_expired();

  static constexpr std::size_t kMostParked = 4096;

 private:
  struct Parked {
    LookupMessage lookup;
    core::Deadline deadline = core::Deadline::never();
    bool in_last_stretch = false;
  };
  std::vector<Parked> parked_;
};

}  // namespace farwrite::device
