// Which writes pass the caches, by the times that their copies took.
#include "memory/copy_choice.h"

#include <gtest/gtest.h>

namespace farwrite::memory {
namespace {

using std::chrono::nanoseconds;

void pass_caches(void* /*destination*/, const void* /*source*/, std::size_t /*bytes*/) {}

constexpr std::uint64_t kBytes = std::uint64_t{64} << 10;

// An address; nothing is stored there.
const std::byte* const kTarget = reinterpret_cast<const std::byte*>(kBytes);

// Where both ends run: what a copy takes the writer.
struct Place {
  nanoseconds cached;
  nanoseconds streamed;
};
// As measured on an AMD EPYC, the last for 128 KiB.
constexpr Place kOneCore{nanoseconds(1160), nanoseconds(7050)};
constexpr Place kOneCache{nanoseconds(7150), nanoseconds(3000)};
constexpr Place kTwoCaches{nanoseconds(72000), nanoseconds(6800)};

// Makes so many writes, and returns how many of them passed the caches.
int streamed_of(CopyChoice& choice, int writes, const Place& place, std::uint64_t bytes = kBytes) {
  int streamed = 0;
  for (int i = 0; i < writes; ++i) {
    const CopyChoice::Plan plan = choice.plan(kTarget, bytes);
    if (plan.function != nullptr) ++streamed;
    if (plan.timed) choice.took(plan, plan.function != nullptr ? place.streamed : place.cached);
  }
  return streamed;
}

constexpr int kWrites = 10000;
constexpr int kFew = kWrites / 20;  // trials are fewer

TEST(CopyChoice, TakesTheWayThatIsBetterWhereTheEndsRun) {
  CopyChoice near(&pass_caches);
  EXPECT_LT(streamed_of(near, kWrites, kOneCore), kFew);
  CopyChoice apart(&pass_caches);
  EXPECT_GT(streamed_of(apart, kWrites, kOneCache), kWrites - kFew);
  CopyChoice far(&pass_caches);
  EXPECT_GT(streamed_of(far, kWrites, kTwoCaches), kWrites - kFew);
}

TEST(CopyChoice, FollowsEndsThatMove) {
  CopyChoice choice(&pass_caches);
  (void)streamed_of(choice, kWrites, kOneCore);
  EXPECT_GT(streamed_of(choice, 100, kTwoCaches), 50) << "a slow way is not kept until a trial";
  (void)streamed_of(choice, kWrites, kOneCore);
  EXPECT_LT(streamed_of(choice, kWrites, kOneCore), kFew);
}

TEST(CopyChoice, IsMadeForEachSize) {
  CopyChoice choice(&pass_caches);
  (void)streamed_of(choice, kWrites, kTwoCaches, kBytes);
  EXPECT_LT(streamed_of(choice, kWrites, kOneCore, kBytes / 2), kFew);
  EXPECT_GT(streamed_of(choice, kWrites, kTwoCaches, kBytes), kWrites - kFew);
}

TEST(CopyChoice, IsNotUndoneByAThreadThatLostItsProcessor) {
  CopyChoice choice(&pass_caches);
  (void)streamed_of(choice, kWrites, kOneCore);
  (void)streamed_of(choice, 8, {nanoseconds(20'000'000), nanoseconds(7050)});  // one is timed
  EXPECT_LT(streamed_of(choice, kWrites, kOneCore), kFew);
}

TEST(CopyChoice, LeavesSmallWritesInTheCaches) {
  CopyChoice choice(&pass_caches);
  EXPECT_EQ(streamed_of(choice, kWrites, kTwoCaches, CopyChoice::kLeastBytes - 1), 0);
  for (const std::uint64_t bytes : {CopyChoice::kLeastBytes, WarmTargets::kCacheBytes}) {
    EXPECT_GT(streamed_of(choice, kWrites, kTwoCaches, bytes), 0) << bytes;
  }
}

TEST(CopyChoice, IsNoneWhereNothingPassesTheCaches) {
  CopyChoice choice(nullptr);
  EXPECT_EQ(streamed_of(choice, kWrites, kTwoCaches), 0);
  EXPECT_FALSE(choice.plan(kTarget, kBytes).timed);
}

}  // namespace
}  // namespace farwrite::memory
