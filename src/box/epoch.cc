#include "box/epoch.h"

#include <algorithm>
#include <atomic>

#include "core/sha256.h"
#include "farwrite/bytes.h"

namespace farwrite::box {
namespace {

std::uint64_t random_step() {
  std::uint32_t bits = 0;
  core::random_bytes({reinterpret_cast<std::byte*>(&bits), sizeof(bits)});
  return std::uint64_t{1} + bits;
}

}  // namespace

std::uint64_t new_epoch(std::uint64_t above, std::chrono::microseconds now) {
  static std::atomic<std::uint64_t> last = 0;
  const auto clock = static_cast<std::uint64_t>(std::max<std::int64_t>(now.count(), 1));
  std::uint64_t before = last.load(std::memory_order_relaxed);
  std::uint64_t next = 0;
  do {
    if (clock > above) {
      next = std::max(clock, before + 1);
    } else {
      next = std::max(above, before) + random_step();
    }
  } while (!last.compare_exchange_weak(before, next, std::memory_order_relaxed));
  return next;
}

std::uint64_t new_epoch(std::uint64_t above) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return new_epoch(above, std::chrono::duration_cast<std::chrono::microseconds>(now));
}

}  // namespace farwrite::box
