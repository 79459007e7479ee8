// CopyChoice: whether a write passes the caches.
//
// An ordinary store first fetches the line from the core that read it last, and that core fetches
// it back. What this costs depends on where both ends run. On two virtual processors of an AMD
// EPYC, 64 KiB and their reading take 6 us when both share a core, 10 us when they share a
// last-level cache, and 32 us when they do not. Streaming stores go to memory, and the reader
// fetches from there: 14 us on one core, and 7 to 8 us on two. The system, or a host of virtual
// machines, may move either end to another core at any time. So the writer times some of its copies
// by each way, and uses the better way.
//
// Where the target was not written a moment ago, no cache holds it, and large writes stream anyway.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "memory/copy.h"
#include "memory/warm_targets.h"

namespace farwrite::memory {

// Thread-safe. A wrong answer costs time and nothing else, so threads that meet here may disturb
// each other's times.
class CopyChoice {
 public:
  // Smaller writes go through the caches: memory answers later than any core.
  static constexpr std::uint64_t kLeastBytes = std::uint64_t{16} << 10;

  // `streaming` passes the caches; null where nothing can, and then nothing is timed.
  explicit CopyChoice(CopyFunction streaming = streaming_kernel()) : streaming_(streaming) {}

  struct Plan {
    CopyFunction function = nullptr;  // null: ordinary stores
    bool timed = false;               // took() wants to know
    bool streamed = false;
    bool ends_trial = false;
    std::uint8_t size = 0;  // which of sizes_
  };
  Plan plan(const std::byte* target, std::uint64_t bytes) {
    if (bytes < kLeastBytes) return {};
    return plan_large(target, bytes);
  }
  // The copy of a plan that is `timed` is done.
  void took(const Plan& plan, std::chrono::nanoseconds time);

 private:
  static constexpr std::uint32_t kUnknown = std::numeric_limits<std::uint32_t>::max();

  // Of all writes between one power of two and the next.
  struct alignas(64) Size {
    std::atomic<bool> streams{false};
    std::atomic<std::int32_t> until_trial_ends{kFirstWrites + kTrialWrites};
    // Nanoseconds of one copy.
    std::atomic<std::uint32_t> cached{kUnknown};
    std::atomic<std::uint32_t> streamed{kUnknown};
  };
  // A trial is a few writes the other way: the first of them meets what the way before it left.
  static constexpr std::int32_t kTrialWrites = 3;
  static constexpr std::int32_t kFirstWrites = 4;  // before the first trial
  static constexpr std::size_t kSizes = 7;         // up to WarmTargets::kCacheBytes
  static_assert(kLeastBytes << (kSizes - 1) == WarmTargets::kCacheBytes);

  Plan plan_large(const std::byte* target, std::uint64_t bytes);
  static void decide(Size& size, bool trial_ended);

  const CopyFunction streaming_;
  WarmTargets warm_targets_;
  std::array<Size, kSizes> sizes_;
};

}  // namespace farwrite::memory
