// Epochs: the numbers that tell versions of one number apart (VersionId).
#pragma once

#include <chrono>
#include <cstdint>

namespace farwrite::box {

// No server comes near it. A snapshot with a higher epoch is damaged, so that one can always
// follow.
inline constexpr std::uint64_t kMaxEpoch = std::uint64_t{1} << 63;

// A new epoch: above `above` and above every epoch that this process has given.
//
// It is the microseconds of the wall clock, which two starts of a server never share. Where the
// clock is behind `above` it says nothing about the order of starts: then the result is `above`
// plus a random number, because a snapshot may be restored twice. Thread-safe.
std::uint64_t new_epoch(std::uint64_t above = 0);
// The same at another time, for tests.
std::uint64_t new_epoch(std::uint64_t above, std::chrono::microseconds now);

}  // namespace farwrite::box
