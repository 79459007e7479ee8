// Meter: the costs of one loop in the process that runs it.
#pragma once

#include <sys/resource.h>

#include <chrono>
#include <cstdint>

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
        start_(std::chrono::steady_clock::now()) {}

  void stop(Outcome& outcome) const {
    outcome.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    outcome.cpu_seconds = cpu_seconds() - cpu_;
    outcome.copies = channel_.stats().copies - copies_;
    outcome.registrations = device_.stats().registrations - registrations_;
  }

 private:
  static double cpu_seconds() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
      return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }

  const Device& device_;
  Channel& channel_;
  std::uint64_t copies_, registrations_;
  double cpu_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace farwrite::bench
