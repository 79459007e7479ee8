// Code that the sender's and the receiver's loops share: payload numbers, and threads per lane.
#pragma once

#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "clock.h"
#include "farwrite_path.h"
#include "peer.h"
#include "phase.h"
#include "raw_limits.h"
#include "raw_tcp.h"

namespace farwrite::bench {

// The number in a payload's first word. All transfers of a run differ in `high`. The low bits hold
// the place at the sender; the receiver computes the expected sum from it.
struct PayloadNumber {
  static constexpr unsigned kPlaceBits = 18;
  static_assert(SlotMap::kMaxSlots == std::uint64_t{1} << kPlaceBits);

  static std::uint64_t high(const Phase& phase, std::uint64_t slot, std::uint64_t use) {
    return ((phase.seed & 0xfff) << 52) | ((use & 0xffff) << 36) | (slot << kPlaceBits);
  }
  static std::uint64_t place(std::uint64_t word) { return word & (SlotMap::kMaxSlots - 1); }
};

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

// Runs `body(lane)` for every lane, each in its own thread, and returns the first failure.
template <typename Body>
Status on_every_lane(Stage& stage, std::uint32_t lanes, const Body& body) {
  if (lanes == 1) return body(0);
  std::mutex mutex;
  Status first;
  std::vector<std::thread> threads;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&, lane] {
      const Status status = body(lane);
      if (status.ok()) return;
      stage.give_up();
      const std::lock_guard lock(mutex);
      if (first.ok()) first = status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return first;
}

// Makes the path of `phase`, meets the other process, runs `loop(path, map, outcome)`, and meets
// the other process again. The meetings keep the bytes of one phase out of the time of the next.
template <typename Loop>
Result<Outcome> run_loop(Peer& peer, const Phase& phase, const Loop& loop) {
  const SlotMap map(phase, peer.options().pool_bytes, peer.side_bytes());
  Stage& stage = peer.stage();
  Outcome outcome;
  const auto run = [&](auto& path) -> Status {
    FARWRITE_RETURN_IF_ERROR(stage.meet());
    FARWRITE_RETURN_IF_ERROR(loop(path, map, outcome));
    return stage.meet();
  };
  if (phase.limit && !peer.raw_sockets().empty()) {
    RawTcpPath path(peer.options().role, stage, phase, map, peer.raw_sockets());
    FARWRITE_RETURN_IF_ERROR(run(path));
  } else if (phase.limit) {
    auto kernel = find_kernel(phase.kernel);
    if (!kernel.ok()) return kernel.status();
    RawPath path(peer.options().role, stage, phase, map, kernel.value());
    FARWRITE_RETURN_IF_ERROR(run(path));
  } else {
    FarwritePath path(peer, phase, map);
    FARWRITE_RETURN_IF_ERROR(run(path));
  }
  return outcome;
}

}  // namespace farwrite::bench
