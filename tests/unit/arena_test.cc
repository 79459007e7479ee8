#include "memory/arena.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "memory/size_class.h"

namespace farwrite::memory {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

ArenaOptions small_arena(std::uint64_t limit_mib = 8, std::uint64_t segment_mib = 2) {
  ArenaOptions options;
  options.name = "test arena";
  options.limit_bytes = limit_mib * kMiB;
  options.segment_bytes = segment_mib * kMiB;
  return options;
}

std::shared_ptr<Arena> make_arena(ArenaOptions options = small_arena()) {
  Result<std::shared_ptr<Arena>> arena = Arena::create(std::move(options));
  EXPECT_TRUE(arena.ok()) << arena.status().to_string();
  return std::move(arena).value();
}

Block must_allocate(Arena& arena, std::uint64_t bytes) {
  Result<Block> block = arena.allocate(bytes);
  EXPECT_TRUE(block.ok()) << block.status().to_string();
  return block.ok() ? *block : Block{};
}

// Takes blocks of `bytes` until the arena refuses.
std::vector<Block> fill(Arena& arena, std::uint64_t bytes) {
  std::vector<Block> blocks;
  for (Result<Block> block = arena.allocate(bytes); block.ok(); block = arena.allocate(bytes)) {
    blocks.push_back(*block);
  }
  return blocks;
}

TEST(SizeClass, RoundsUpByAtMostAnEighth) {
  for (std::uint64_t units = 1; units < 200000; units = units * 17 / 16 + 1) {
    const std::uint32_t above = class_at_least(units);
    EXPECT_GE(class_units(above), units);
    EXPECT_LE((class_units(above) - units) * 8, units) << units;
    EXPECT_LE(class_units(class_at_most(units)), units);
    EXPECT_LE(above - class_at_most(units), 1U);
  }
}

TEST(Arena, AlignsEveryBlockTo64BytesAndGivesAtLeastWhatWasAsked) {
  const auto arena = make_arena();
  std::vector<Block> blocks;
  for (const std::uint64_t bytes : {1, 63, 64, 65, 1000, 4096, 70000, 1 << 20}) {
    const Block block = must_allocate(*arena, bytes);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block.data) % 64, 0U);
    EXPECT_GE(block.bytes, bytes);
    EXPECT_EQ(block.segment->base() + block.offset, block.data);
    std::memset(block.data, 1, block.bytes);
    blocks.push_back(block);
  }
  for (const Block& block : blocks) arena->free(block.data);
}

// Two buffers at nearly the same place in their pages are copied at half the speed.
TEST(Arena, StartsLargeBlocksOnAPageAndStillUsesWhatLiesBefore) {
  const auto arena = make_arena(small_arena(8, 8));
  const Block small = must_allocate(*arena, 64);
  const Block large = must_allocate(*arena, 3 * kMiB);
  const Block other = must_allocate(*arena, kMiB + 1);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large.data) % 4096, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(other.data) % 4096, 0U);
  const Block between = must_allocate(*arena, 1024);
  EXPECT_LT(between.offset, large.offset);
  for (const Block& block : {small, large, other, between}) arena->free(block.data);
  arena->free(must_allocate(*arena, 8 * kMiB).data);
}

TEST(Arena, AlignsNoBlockThatOnlyFitsWhereNoPageStarts) {
  const auto arena = make_arena(small_arena(2, 2));
  const Block small = must_allocate(*arena, 64);
  const Block large = must_allocate(*arena, 2 * kMiB - 64);
  EXPECT_EQ(large.bytes, 2 * kMiB - 64);
  arena->free(small.data);
  arena->free(large.data);
}

TEST(Arena, GivesZeroBytesAUniqueBlock) {
  const auto arena = make_arena();
  const Block first = must_allocate(*arena, 0);
  const Block second = must_allocate(*arena, 0);
  EXPECT_NE(first.data, nullptr);
  EXPECT_NE(first.data, second.data);
  arena->free(first.data);
  arena->free(second.data);
  EXPECT_EQ(arena->stats().used_bytes, 0U);
}

TEST(Arena, CoalescesFragmentsIntoTheWholeSegmentAgain) {
  const auto arena = make_arena(small_arena(4, 4));
  std::vector<Block> blocks = fill(*arena, 5000);
  ASSERT_GT(blocks.size(), 500U);
  std::shuffle(blocks.begin(), blocks.end(), std::mt19937(1));
  for (const Block& block : blocks) arena->free(block.data);
  const Block whole = must_allocate(*arena, 4 * kMiB);
  EXPECT_EQ(whole.bytes, 4 * kMiB);
  arena->free(whole.data);
}

TEST(Arena, NeverMergesBlocksOfTwoSegments) {
  const auto arena = make_arena(small_arena(4, 2));
  std::vector<Block> blocks = fill(*arena, kMiB);
  ASSERT_EQ(blocks.size(), 4U);
  ASSERT_NE(blocks[1].segment, blocks[2].segment);
  ASSERT_EQ(blocks[1].data + kMiB, blocks[2].data);
  arena->free(blocks[1].data);
  arena->free(blocks[2].data);
  EXPECT_EQ(arena->allocate(kMiB + 1).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(arena->stats().largest_free, kMiB);
  arena->free(blocks[0].data);
  arena->free(blocks[3].data);
}

TEST(Arena, EmptiesItsCachesBeforeItGrowsOrFails) {
  const auto arena = make_arena(small_arena(2, 2));
  const std::vector<Block> blocks = fill(*arena, 64 << 10);
  for (const Block& block : blocks) arena->free(block.data);
  EXPECT_GT(arena->stats().cached_bytes, 0U);
  const Block whole = must_allocate(*arena, 2 * kMiB);
  EXPECT_EQ(arena->stats().cached_bytes, 0U);
  EXPECT_EQ(arena->stats().segments, 1U);
  arena->free(whole.data);
}

TEST(Arena, GrowsOnDemandUpToItsLimitIncludingASmallerLastSegment) {
  const auto arena = make_arena(small_arena(10, 4));
  EXPECT_EQ(arena->stats().segments, 0U);
  const Block first = must_allocate(*arena, 4 * kMiB);
  EXPECT_EQ(arena->stats().reserved_bytes, 4 * kMiB);
  const Block second = must_allocate(*arena, 4 * kMiB);
  const Block third = must_allocate(*arena, 2 * kMiB);
  EXPECT_EQ(arena->stats().segments, 3U);
  EXPECT_EQ(arena->stats().reserved_bytes, 10 * kMiB);
  EXPECT_FALSE(arena->allocate(1).ok());
  for (const Block& block : {first, second, third}) arena->free(block.data);
}

TEST(Arena, GivesALargeRequestASegmentOfItsOwnSize) {
  const auto arena = make_arena(small_arena(64, 2));
  const Block block = must_allocate(*arena, 33 * kMiB + 1);
  EXPECT_EQ(arena->stats().reserved_bytes, 34 * kMiB);
  arena->free(block.data);
}

TEST(Arena, FitsARequestThatOnlyFitsWithoutRoundingUp) {
  const auto arena = make_arena(small_arena(18, 18));
  const Block small = must_allocate(*arena, 64 << 10);
  const Block large = must_allocate(*arena, 17 * kMiB + 100);  // its class is 18 MiB
  EXPECT_EQ(large.bytes, 17 * kMiB + 128);
  arena->free(small.data);
  arena->free(large.data);
  arena->free(must_allocate(*arena, 18 * kMiB).data);
}

TEST(Arena, FitsARequestThatOnlyFitsItsQuotaWithoutRoundingUp) {
  ArenaOptions options = small_arena();
  options.quota = std::make_shared<Quota>("receive", 1000000);
  const auto arena = make_arena(options);
  arena->free(must_allocate(*arena, 1000000).data);
  EXPECT_EQ(options.quota->in_use(), 0U);
}

TEST(Arena, SaysWhatIsFullAndWhatToDo) {
  ArenaOptions options = small_arena(2, 2);
  options.limit_option = "arena_limit_bytes";
  const auto arena = make_arena(options);
  const Block block = must_allocate(*arena, kMiB);
  const Status status = arena->allocate(2 * kMiB).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  for (const char* part : {"test arena", "2097152 bytes requested", "1048576 of 2097152 bytes used",
                           "largest free block 1048576", "raise arena_limit_bytes"}) {
    EXPECT_NE(status.message().find(part), std::string::npos) << part << " in " << status.message();
  }
  EXPECT_EQ(arena->stats().failures, 1U);
  arena->free(block.data);
}

TEST(Arena, RefusesAnAbsurdSizeWithoutOverflow) {
  const auto arena = make_arena();
  EXPECT_EQ(arena->allocate(~std::uint64_t{0}).status().code(), StatusCode::kResourceExhausted);
  EXPECT_EQ(arena->stats().segments, 0U);
}

TEST(Arena, ChargesAQuotaThatArenasShare) {
  ArenaOptions options = small_arena();
  options.quota = std::make_shared<Quota>("receive", kMiB);
  const auto first = make_arena(options);
  const auto second = make_arena(options);
  const Block block = must_allocate(*first, kMiB);
  const Status status = second->allocate(1).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("receive"), std::string::npos) << status.message();
  first->free(block.data);
  EXPECT_EQ(options.quota->in_use(), 0U);
  second->free(must_allocate(*second, 1).data);
  EXPECT_EQ(options.quota->in_use(), 0U);
}

TEST(Arena, AFailedAllocationGivesItsQuotaBack) {
  ArenaOptions options = small_arena(2, 2);
  options.quota = std::make_shared<Quota>("receive", 64 * kMiB);
  const auto arena = make_arena(options);
  const Block block = must_allocate(*arena, kMiB);
  EXPECT_FALSE(arena->allocate(2 * kMiB).ok());
  EXPECT_EQ(options.quota->in_use(), kMiB);
  arena->free(block.data);
}

TEST(Arena, KnowsItsOwnAddressesAndNoOthers) {
  const auto arena = make_arena();
  const Block block = must_allocate(*arena, 1000);
  int elsewhere = 0;
  EXPECT_TRUE(arena->contains(block.data));
  EXPECT_TRUE(arena->contains(block.data + block.bytes - 1));
  EXPECT_FALSE(arena->contains(&elsewhere));
  EXPECT_FALSE(arena->contains(nullptr));
  EXPECT_FALSE(arena->contains(block.segment->base() - 1));
  EXPECT_FALSE(arena->contains(block.segment->base() + block.segment->bytes()));
  const std::optional<Location> location = arena->locate(block.data + 10);
  ASSERT_TRUE(location.has_value());
  EXPECT_EQ(location->segment, block.segment);
  EXPECT_EQ(location->offset, block.offset + 10);
  EXPECT_FALSE(arena->locate(&elsewhere).has_value());
  arena->free(block.data);
}

TEST(Arena, CallsOnSegmentOnceForEverySegmentBeforeItIsUsed) {
  std::set<std::uint32_t> seen;
  std::size_t calls = 0;
  ArenaOptions options = small_arena(6, 2);
  options.on_segment = [&](const std::shared_ptr<Segment>& segment) {
    seen.insert(segment->id());
    ++calls;
    return Status();
  };
  const auto arena = make_arena(options);
  const std::vector<Block> blocks = fill(*arena, 100000);
  for (const Block& block : blocks) {
    EXPECT_EQ(seen.count(block.segment->id()), 1U);
    arena->free(block.data);
  }
  EXPECT_EQ(calls, 3U);
  EXPECT_EQ(seen.size(), 3U);
}

TEST(Arena, AFailingOnSegmentFailsTheAllocationAndLeavesNothingBehind) {
  bool broken = true;
  ArenaOptions options = small_arena(2, 2);
  options.on_segment = [&](const std::shared_ptr<Segment>&) {
    return broken ? Status(StatusCode::kUnavailable, "no registration") : Status();
  };
  const auto arena = make_arena(options);
  const Status status = arena->allocate(1).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_EQ(status.message(), "no registration");
  EXPECT_EQ(arena->stats().reserved_bytes, 0U);
  broken = false;
  arena->free(must_allocate(*arena, 2 * kMiB).data);
}

TEST(Arena, TrimReturnsFreeSegmentsAfterTellingAndGrowsAgainLater) {
  std::vector<std::uint32_t> removed;
  ArenaOptions options = small_arena(6, 2);
  options.on_segment_removed = [&](const std::shared_ptr<Segment>& segment) {
    removed.push_back(segment->id());
  };
  const auto arena = make_arena(options);
  const Block keep = must_allocate(*arena, 2 * kMiB);
  const Block drop = must_allocate(*arena, 2 * kMiB);
  const std::uint32_t id = drop.segment->id();
  arena->free(drop.data);
  arena->trim();
  EXPECT_EQ(removed, std::vector<std::uint32_t>{id});
  EXPECT_EQ(arena->stats().segments, 1U);
  EXPECT_FALSE(arena->contains(drop.data));
  EXPECT_TRUE(arena->contains(keep.data));
  arena->free(must_allocate(*arena, 4 * kMiB).data);
  arena->free(keep.data);
}

TEST(Arena, NeverReusesTheAddressesOfATrimmedSegmentThatSomebodyStillHolds) {
  std::shared_ptr<Segment> held;
  ArenaOptions options = small_arena(4, 2);
  options.on_segment_removed = [&](const std::shared_ptr<Segment>& segment) { held = segment; };
  const auto arena = make_arena(options);
  arena->free(must_allocate(*arena, 2 * kMiB).data);
  arena->trim();
  ASSERT_NE(held, nullptr);
  held->base()[0] = std::byte{77};
  const Block block = must_allocate(*arena, 2 * kMiB);
  std::memset(block.data, 1, block.bytes);
  EXPECT_EQ(held->base()[0], std::byte{77});
  held.reset();
  block.data[0] = std::byte{2};
  arena->free(block.data);
}

TEST(Arena, JoinsFreeSegmentsForABlockThatIsLargerThanEach) {
  const auto arena = make_arena(small_arena(16, 2));
  const Block small = must_allocate(*arena, 100);
  for (const std::uint64_t size : {3 * kMiB, 4 * kMiB + 1, 6 * kMiB + 1}) {
    const Block block = must_allocate(*arena, size);
    // What is left of its segment is not for small ones, which would keep it.
    const Block other = must_allocate(*arena, 100);
    EXPECT_NE(block.segment, other.segment);
    arena->free(block.data);
    arena->free(other.data);
  }
  arena->free(must_allocate(*arena, 14 * kMiB).data);
  arena->free(small.data);
  EXPECT_EQ(arena->stats().failures, 0U);
}

TEST(Arena, SegmentsOutliveTheArenaForThoseWhoHoldThem) {
  std::shared_ptr<Segment> held;
  ArenaOptions options = small_arena();
  options.on_segment = [&](const std::shared_ptr<Segment>& segment) {
    held = segment;
    return Status();
  };
  auto arena = make_arena(options);
  arena->free(must_allocate(*arena, 1).data);
  arena.reset();
  held->base()[held->bytes() - 1] = std::byte{1};
}

TEST(Arena, StatisticsBalanceToZero) {
  const auto arena = make_arena();
  std::vector<Block> blocks;
  std::uint64_t used = 0;
  for (std::uint64_t bytes = 1; bytes < kMiB; bytes = bytes * 3 + 1) {
    blocks.push_back(must_allocate(*arena, bytes));
    used += blocks.back().bytes;
  }
  EXPECT_EQ(arena->stats().used_bytes, used);
  for (const Block& block : blocks) arena->free(block.data);
  const ArenaStats stats = arena->stats();
  EXPECT_EQ(stats.used_bytes, 0U);
  EXPECT_EQ(stats.peak_used_bytes, used);
  EXPECT_EQ(stats.allocations, blocks.size());
  EXPECT_EQ(stats.frees, blocks.size());
  EXPECT_EQ(stats.failures, 0U);
  arena->trim();
  EXPECT_EQ(arena->stats().reserved_bytes, 0U);
}

// Fills a block with its owner's mark and checks it again before the block is freed.
class Churn {
 public:
  Churn(Arena& arena, int seed) : arena_(arena), random_(static_cast<unsigned>(seed)) {}

  void run(int turns, std::vector<Block>& handed_over, std::mutex& mutex) {
    std::vector<Block> live(24);
    for (int turn = 0; turn < turns; ++turn) {
      Block& block = live[random_() % live.size()];
      if (block.data != nullptr) check_and_free(block);
      const std::uint64_t bytes = std::uint64_t{1} << (random_() % 17);
      block = must_allocate(arena_, bytes + random_() % bytes);
      mark(block);
      const std::lock_guard lock(mutex);  // half of the blocks are freed by another thread
      if (turn % 2 == 0) handed_over.push_back(std::exchange(block, Block{}));
      if (handed_over.size() > 40) {
        check_and_free(handed_over.front());
        handed_over.erase(handed_over.begin());
      }
    }
    for (Block& block : live) {
      if (block.data != nullptr) check_and_free(block);
    }
  }

  void check_and_free(Block& block) {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    std::memcpy(&first, block.data, sizeof(first));
    std::memcpy(&last, block.data + block.bytes - sizeof(last), sizeof(last));
    EXPECT_EQ(first, reinterpret_cast<std::uintptr_t>(block.data));
    EXPECT_EQ(last, block.bytes);
    arena_.free(block.data);
    block = Block{};
  }

 private:
  static void mark(const Block& block) {
    const std::uint64_t first = reinterpret_cast<std::uintptr_t>(block.data);
    std::memset(block.data, 0x5A, block.bytes);
    std::memcpy(block.data, &first, sizeof(first));
    std::memcpy(block.data + block.bytes - sizeof(first), &block.bytes, sizeof(first));
  }

  Arena& arena_;
  std::mt19937 random_;
};

TEST(Arena, KeepsBlocksApartUnderEightThreadsThatFreeEachOthers) {
  const auto arena = make_arena(small_arena(256, 4));
  std::vector<Block> handed_over;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] { Churn(*arena, i).run(1500, handed_over, mutex); });
  }
  std::thread observer([&] {
    for (int i = 0; i < 50; ++i) {
      (void)arena->stats();
      (void)arena->contains(&mutex);
      arena->trim();
    }
  });
  for (std::thread& thread : threads) thread.join();
  observer.join();
  Churn rest(*arena, 0);
  for (Block& block : handed_over) rest.check_and_free(block);
  const ArenaStats stats = arena->stats();
  EXPECT_EQ(stats.used_bytes, 0U);
  EXPECT_EQ(stats.allocations, 8U * 1500U);
  EXPECT_EQ(stats.frees, stats.allocations);
  arena->trim();
  EXPECT_EQ(arena->stats().reserved_bytes, 0U);
}

TEST(Arena, TellsAForkedChildThatItIsTheParents) {
  const auto arena = make_arena();
  const Block block = must_allocate(*arena, 1);
  const pid_t child = ::fork();
  if (child == 0) {
    arena->free(block.data);
    const bool refused = arena->allocate(1).status().code() == StatusCode::kForked;
    ::_exit(refused && arena->stats().used_bytes == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  arena->free(block.data);
}

TEST(Arena, IgnoresFreeOfNullptr) {
  const auto arena = make_arena();
  arena->free(nullptr);
  EXPECT_EQ(arena->stats().frees, 0U);
}

TEST(Arena, RefusesOptionsThatCannotWork) {
  EXPECT_EQ(Arena::create(small_arena(0, 2)).status().code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(Arena::create(small_arena(2, 0)).status().code(), StatusCode::kInvalidArgument);
  ArenaOptions endless = small_arena();
  endless.limit_bytes = ~std::uint64_t{0};
  EXPECT_EQ(Arena::create(endless).status().code(), StatusCode::kInvalidArgument);
}

// In the child a death test forks, the parent's arena would ignore a bad free: each makes its own.
void free_offset_into_a_block(std::ptrdiff_t offset) {
  const auto arena = make_arena();
  arena->free(must_allocate(*arena, 1000).data + offset);
}

TEST(ArenaDeathTest, AbortsOnADoubleFree) {
  EXPECT_DEATH(
      {
        const auto arena = make_arena();
        const Block block = must_allocate(*arena, 1000);
        arena->free(block.data);
        arena->free(block.data);
      },
      "'test arena'.*no live block");
}

TEST(ArenaDeathTest, AbortsOnAForeignPointer) {
  std::byte foreign[64];
  EXPECT_DEATH(make_arena()->free(foreign), "no live block");
}

TEST(ArenaDeathTest, AbortsOnAPointerIntoABlock) {
  EXPECT_DEATH(free_offset_into_a_block(64), "no live block");
  EXPECT_DEATH(free_offset_into_a_block(1), "no live block");
}

}  // namespace
}  // namespace farwrite::memory
