// Random: the simulation's only source of chance.
//
// Our own, because the distributions of <random> differ between standard libraries: a failing seed
// must fail everywhere.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

namespace farwrite::fabric {

// splitmix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators"). The same seed
// gives the same numbers on every machine. Thread-compatible.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t next() {
    std::uint64_t mixed = (state_ += 0x9e3779b97f4a7c15);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    return mixed ^ (mixed >> 31);
  }

  // A number below `bound`, which is not 0.
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }

  // True with this probability, 0 to 1.
  bool chance(double probability) {
    return static_cast<double>(next() >> 11) * 0x1.0p-53 < probability;
  }

  // A length from `low` to `high`, all magnitudes alike: single bytes are as likely as kilobytes.
  std::uint64_t length_between(std::uint64_t low, std::uint64_t high) {
    const std::uint64_t magnitude = below(static_cast<std::uint64_t>(std::bit_width(high)) + 1);
    const std::uint64_t length =
        magnitude >= 64 ? next() : next() % (std::uint64_t{1} << magnitude);
    return std::clamp(length, low, high);
  }

 private:
  std::uint64_t state_;
};

}  // namespace farwrite::fabric
