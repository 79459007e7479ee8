// Size classes: the block sizes an arena hands out, and the bins its free blocks are kept in.
//
// Sizes are counted in units of 64 bytes. Up to 15 units every size is a class; from there on every
// doubling is cut into 8 equal steps, so rounding up wastes at most 1/8 of the request.
#pragma once

#include <bit>
#include <cstdint>

namespace farwrite::memory {

inline constexpr std::uint64_t kUnitBytes = 64;
inline constexpr std::uint32_t kSizeClasses =
    16 + 8 * 46;  // up to 2^50 units, more than any machine

constexpr std::uint64_t units_for(std::uint64_t bytes) {
  return bytes == 0 ? 1 : (bytes - 1) / kUnitBytes + 1;
}

// The largest class that is no larger than `units` (> 0).
constexpr std::uint32_t class_at_most(std::uint64_t units) {
  if (units < 16) return static_cast<std::uint32_t>(units);
  const auto doubling = static_cast<std::uint32_t>(std::bit_width(units)) - 1;
  const auto step = static_cast<std::uint32_t>(units >> (doubling - 3)) - 8;
  return 16 + (doubling - 4) * 8 + step;
}

constexpr std::uint64_t class_units(std::uint32_t size_class) {
  if (size_class < 16) return size_class;
  const std::uint32_t doubling = (size_class - 16) / 8;
  return (8 + std::uint64_t{(size_class - 16) % 8}) << (doubling + 1);
}

// The smallest class that is no smaller than `units`.
constexpr std::uint32_t class_at_least(std::uint64_t units) {
  const std::uint32_t below = class_at_most(units);
  return class_units(below) == units ? below : below + 1;
}

static_assert(class_units(class_at_least(15)) == 15 && class_units(class_at_least(16)) == 16);
static_assert(class_units(class_at_least(17)) == 18 && class_units(class_at_most(33)) == 32);
static_assert(class_units(class_at_least((1 << 20) + 1)) == (1 << 20) + (1 << 17));

}  // namespace farwrite::memory
