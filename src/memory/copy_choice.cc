#include "memory/copy_choice.h"

#include <algorithm>
#include <bit>

namespace farwrite::memory {
namespace {

// Between two trials one write in eight is timed: reading the clock costs time as well.
constexpr std::int32_t kTimedEvery = 8;
// Writes from one trial to the next. A way that takes three times as long is tried three times less
// often, up to kMostSeldom.
constexpr std::uint32_t kTrialEvery = 64;
constexpr std::uint32_t kMostSeldom = 16;
// A thread that lost its processor in a copy says nothing about the copy.
constexpr std::uint32_t kOutlier = 4;

// Past the caches the writer is done sooner, but the reader waits for memory. As measured.
constexpr std::uint32_t kReaderWaits = 1500;
bool streams_better(std::uint32_t cached, std::uint32_t streamed) {
  return std::uint64_t{cached} > std::uint64_t{streamed} + streamed / 2 + kReaderWaits;
}

}  // namespace

CopyChoice::Plan CopyChoice::plan_large(const std::byte* target, std::uint64_t bytes) {
  if (bytes >= kStreamingCopyBytes && !warm_targets_.note(target, bytes)) {
    return {.function = probe_copy_kernels().function};
  }
  if (streaming_ == nullptr) return {};
  Plan plan;
  plan.size = static_cast<std::uint8_t>(
      std::min<std::size_t>(std::bit_width(bytes / kLeastBytes) - 1, kSizes - 1));
  Size& size = sizes_[plan.size];
  const std::int32_t left = size.until_trial_ends.fetch_sub(1, std::memory_order_relaxed);
  const bool streams = size.streams.load(std::memory_order_relaxed);
  const bool trial = left <= kTrialWrites;
  if (left == kTrialWrites) {
    (streams ? size.cached : size.streamed).store(kUnknown, std::memory_order_relaxed);
  }
  plan.streamed = trial != streams;
  plan.ends_trial = left <= 1;
  plan.timed =
      trial || left % kTimedEvery == 0 || size.streamed.load(std::memory_order_relaxed) == kUnknown;
  if (plan.streamed) plan.function = streaming_;
  return plan;
}

void CopyChoice::took(const Plan& plan, std::chrono::nanoseconds time) {
  Size& size = sizes_[plan.size];
  std::atomic<std::uint32_t>& kept = plan.streamed ? size.streamed : size.cached;
  const std::uint32_t before = kept.load(std::memory_order_relaxed);
  const auto now = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(time.count(), 1, kUnknown / (2 * kOutlier)));
  const bool tried = plan.streamed != size.streams.load(std::memory_order_relaxed) ||
                     size.streamed.load(std::memory_order_relaxed) == kUnknown;
  if (tried || before == kUnknown) {
    kept.store(std::min(before, now), std::memory_order_relaxed);
  } else {
    kept.store(before - before / 4 + std::min(now, kOutlier * before) / 4,
               std::memory_order_relaxed);
  }
  decide(size, plan.ends_trial);
}

void CopyChoice::decide(Size& size, bool trial_ended) {
  const std::uint32_t cached = size.cached.load(std::memory_order_relaxed);
  const std::uint32_t streamed = size.streamed.load(std::memory_order_relaxed);
  if (cached == kUnknown || streamed == kUnknown) return;
  const bool better = streams_better(cached, streamed);
  if (!trial_ended) {
    // The ends have moved apart: not to be borne until the next trial.
    if (better && !size.streams.load(std::memory_order_relaxed)) size.streams.store(true);
    return;
  }
  size.streams.store(better, std::memory_order_relaxed);
  const std::uint32_t ratio = std::max(cached, streamed) / std::min(cached, streamed);
  size.until_trial_ends.store(
      static_cast<std::int32_t>(kTrialEvery * std::clamp(ratio, 1U, kMostSeldom)),
      std::memory_order_relaxed);
}

}  // namespace farwrite::memory
