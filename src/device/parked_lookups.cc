#include "device/parked_lookups.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

namespace farwrite::device {
namespace {

// No less than the time between two calls of take_last_stretches().
constexpr std::chrono::nanoseconds kLastStretch = std::chrono::seconds(1);
constexpr std::uint64_t kLongestWaitMs = 24 * 3600 * 1000;

}  // namespace

bool ParkedLookups::park(const LookupMessage& lookup) {
  if (lookup.wait_ms == 0 || full()) return false;
  const std::chrono::milliseconds wait(std::min(lookup.wait_ms, kLongestWaitMs));
  parked_.push_back({lookup, core::Deadline::after(wait)});
  return true;
}

void ParkedLookups::answer(const std::function<bool(const LookupMessage&)>& answer) {
  std::erase_if(parked_, [&](const Parked& parked) { return answer(parked.lookup); });
}

std::vector<std::chrono::nanoseconds> ParkedLookups::take_last_stretches() {
  std::vector<std::chrono::nanoseconds> stretches;
  for (Parked& parked : parked_) {
    const std::chrono::nanoseconds left = parked.deadline.remaining();
    if (parked.in_last_stretch || left > kLastStretch) continue;
    parked.in_last_stretch = true;
    stretches.push_back(left);
  }
  return stretches;
}

std::vector<LookupMessage> ParkedLookups::take_expired() {
  std::vector<LookupMessage> expired;
  std::erase_if(parked_, [&](Parked& parked) {
    if (!parked.deadline.expired()) return false;
    expired.push_back(std::move(parked.lookup));
    return true;
  });
  return expired;
}

}  // namespace farwrite::device
