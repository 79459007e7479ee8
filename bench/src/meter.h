// Meter: the costs of one loop in the process that runs it.
#pragma once

#include <cstdint>

#include "clock.h"
#include "farwrite/farwrite.h"
#include "phase.h"

namespace farwrite::bench {

// Measures the time, the CPU time and the counters of one loop.
class Meter {
 public:
  Meter(const Device& device, Channel& channel)
      : device_(device),
        channel_(channel),
        copies_(channel.stats().copies),
        registrations_(device.stats().registrations),
        cpu_(cpu_seconds()),
        start_(Clock::now()) {}

  void stop(Outcome& outcome) const {
    outcome.seconds = seconds_since(start_);
    outcome.cpu_seconds = cpu_seconds() - cpu_;
    outcome.copies = channel_.stats().copies - copies_;
    outcome.registrations = device_.stats().registrations - registrations_;
  }

 private:
  const Device& device_;
  Channel& channel_;
  std::uint64_t copies_, registrations_;
  double cpu_;
  Clock::time_point start_;
};

}  // namespace farwrite::bench
