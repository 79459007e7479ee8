// Memory of an arena that rests goes back to the system.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "memory/arena.h"

namespace farwrite::memory {
namespace {

constexpr std::uint64_t kSegment = std::uint64_t{2} << 20;

ArenaOptions idle_options() {
  ArenaOptions options;
  options.name = "idle arena";
  options.limit_bytes = 8 * kSegment;
  options.segment_bytes = kSegment;
  return options;
}

std::shared_ptr<Arena> idle_arena() { return Arena::create(idle_options()).value(); }

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

TEST(ArenaIdle, LeavesRoomForALargerBlockWhereverItLay) {
  const auto arena = idle_arena();
  const std::uint64_t limit = arena->options().limit_bytes;
  std::byte* blocks[4];
  for (std::byte*& block : blocks) block = arena->allocate(limit / 4).value().data;
  arena->free(blocks[0]);
  arena->free(blocks[2]);
  Result<Block> larger = arena->allocate(limit / 2);
  ASSERT_TRUE(larger.ok()) << larger.status().to_string();
  EXPECT_EQ(arena->stats().reserved_bytes, limit);
  const Status over = arena->allocate(kSegment).status();
  EXPECT_EQ(over.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(over.message().find("largest free block 0 bytes"), std::string::npos) << over.message();
  for (std::byte* const block : {blocks[1], blocks[3], larger->data}) arena->free(block);
}

TEST(ArenaIdle, GivesEachSegmentBackWithItsLastBlockOnceItIsRetired) {
  std::vector<std::uint32_t> removed;
  ArenaOptions options = idle_options();
  options.on_segment_removed = [&](const std::shared_ptr<Segment>& segment) {
    removed.push_back(segment->id());
  };
  const auto arena = Arena::create(options).value();
  std::byte* const small = arena->allocate(64).value().data;
  std::byte* const beside = arena->allocate(64).value().data;
  std::byte* const large = arena->allocate(kSegment).value().data;
  const Block unused = arena->allocate(kSegment).value();
  const std::uint32_t id = unused.segment->id();
  arena->free(unused.data);
  arena->retire();
  EXPECT_EQ(removed, std::vector<std::uint32_t>{id});
  EXPECT_EQ(arena->stats().segments, 2U);
  arena->free(large);
  EXPECT_FALSE(arena->contains(large));
  arena->free(small);
  EXPECT_TRUE(arena->contains(beside));
  arena->free(beside);
  EXPECT_EQ(arena->stats().segments, 0U);
  EXPECT_EQ(removed.size(), 1U) << "what it told of segments may be gone by then";
}

TEST(ArenaIdle, LosesNoSegmentThatIsFreedWhileItIsRetired) {
  for (int round = 0; round < 200; ++round) {
    const auto arena = idle_arena();
    std::byte* const first = arena->allocate(64).value().data;
    std::byte* const second = arena->allocate(kSegment).value().data;
    std::thread frees([&] {
      arena->free(first);
      arena->free(second);
    });
    arena->retire();
    frees.join();
    EXPECT_EQ(arena->stats().segments, 0U);
  }
}

}  // namespace
}  // namespace farwrite::memory
