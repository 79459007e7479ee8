// Which targets of large writes count as warm.
#include "memory/warm_targets.h"

#include <gtest/gtest.h>

namespace farwrite::memory {
namespace {

constexpr std::uint64_t kSlot = kStreamingCopyBytes;

// An address; nothing is stored there.
const std::byte* slot(std::uint64_t index) {
  return reinterpret_cast<const std::byte*>((index + 1) * kSlot);
}

TEST(WarmTargets, AreThoseWrittenAMomentAgo) {
  WarmTargets targets;
  EXPECT_FALSE(targets.note(slot(0), kSlot)) << "the first time";
  EXPECT_TRUE(targets.note(slot(0), kSlot));
  EXPECT_FALSE(targets.note(slot(1), kSlot)) << "another target";
  EXPECT_TRUE(targets.note(slot(0), kSlot)) << "two slots in turn";
  EXPECT_TRUE(targets.note(slot(1), kSlot));
}

TEST(WarmTargets, AreForgottenWhenMoreThanACacheWasWrittenSince) {
  WarmTargets targets;
  (void)targets.note(slot(0), kSlot);
  (void)targets.note(slot(1), WarmTargets::kCacheBytes - kSlot);
  EXPECT_TRUE(targets.note(slot(0), kSlot));
  (void)targets.note(slot(1), WarmTargets::kCacheBytes - kSlot + 1);
  EXPECT_FALSE(targets.note(slot(0), kSlot));
}

TEST(WarmTargets, AreNoneInARotationThroughAPool) {
  WarmTargets targets;
  for (std::uint64_t i = 0; i < 200; ++i) {
    EXPECT_FALSE(targets.note(slot(i % 64), kSlot)) << "write " << i;
  }
}

TEST(WarmTargets, AreNeverLargerThanACache) {
  WarmTargets targets;
  (void)targets.note(slot(0), WarmTargets::kCacheBytes + 1);
  EXPECT_FALSE(targets.note(slot(0), WarmTargets::kCacheBytes + 1));
}

}  // namespace
}  // namespace farwrite::memory
