// Memory of an arena that rests goes back to the system.
#include <gtest/gtest.h>

#include <chrono>

#include "memory/arena.h"

namespace farwrite::memory {
namespace {

constexpr std::uint64_t kSegment = std::uint64_t{2} << 20;

std::shared_ptr<Arena> idle_arena() {
  ArenaOptions options;
  options.name = "idle arena";
  options.limit_bytes = 8 * kSegment;
  options.segment_bytes = kSegment;
  return Arena::create(options).value();
}

TEST(ArenaIdle, GivesBackWhatIsFreeButNotItsFirstSegment) {
  const auto arena = idle_arena();
  std::byte* const first = arena->allocate(kSegment).value().data;
  std::byte* const second = arena->allocate(3 * kSegment).value().data;
  std::byte* const third = arena->allocate(kSegment).value().data;
  arena->free(first);
  arena->free(second);
  for (int i = 0; i < 5; ++i) arena->trim_idle({});
  EXPECT_TRUE(arena->contains(first));
  EXPECT_FALSE(arena->contains(second));
  EXPECT_TRUE(arena->contains(third));
  arena->free(third);
}

TEST(ArenaIdle, KeepsWhatWasUsedWithinTheIdleTime) {
  const auto arena = idle_arena();
  arena->free(arena->allocate(kSegment).value().data);
  std::byte* const second = arena->allocate(3 * kSegment).value().data;
  arena->free(second);
  arena->trim_idle(std::chrono::hours(1));
  EXPECT_TRUE(arena->contains(second));
}

TEST(ArenaIdle, GivesAFirstSegmentBackThatIsLargerThanUsual) {
  const auto arena = idle_arena();
  arena->free(arena->allocate(3 * kSegment).value().data);
  arena->trim_idle({});
  EXPECT_EQ(arena->stats().segments, 0U);
}

}  // namespace
}  // namespace farwrite::memory
