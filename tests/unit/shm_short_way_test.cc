// The short way of small notified writes, and what it leaves to the other.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "unit/shm_link_fixture.h"

namespace farwrite::fabric::shm {
namespace {

TEST_F(ShmLinks, WriteAndTakeByTheShortWay) {
  ASSERT_NO_FATAL_FAILURE(land());
  Lane& sends = near().link->lane(0);
  Lane& takes = far().link->lane(0);
  std::atomic<std::size_t> queued{0};
  std::uint32_t tag = 0;
  EXPECT_FALSE(takes.take_bare(1, queued, tag));
  ASSERT_TRUE(sends.write_small(*window_, 16, {"farwrite", 8}, 42));
  EXPECT_EQ(std::memcmp(landing_->base() + 4096 + 16, "farwrite", 8), 0);
  queued.store(1);  // what came before waits elsewhere
  EXPECT_FALSE(takes.take_bare(1, queued, tag));
  queued.store(0);
  ASSERT_TRUE(takes.take_bare(1, queued, tag));
  EXPECT_EQ(tag, 42U);
  EXPECT_FALSE(takes.take_bare(1, queued, tag));
  EXPECT_EQ(near().link->counters().copies, 1U);
  // A message is not its to take, nor what follows it.
  ASSERT_TRUE(send(near(), {std::byte{1}}, 43).done());
  ASSERT_TRUE(sends.write_small(*window_, 16, {"farwrite", 8}, 44));
  EXPECT_FALSE(takes.take_bare(1, queued, tag));
  EXPECT_EQ(poll(far()).delivered, 2U);
  ASSERT_EQ(far().sink.taken.size(), 2U);
  EXPECT_EQ(far().sink.taken[0].tag, 43U);
  EXPECT_EQ(far().sink.taken[1].tag, 44U);
}

TEST_F(ShmLinks, LookForWhatComesMeanwhile) {
  Lane& takes = far().link->lane(0);
  std::atomic<std::size_t> queued{0};
  std::uint32_t tag = 0;
  std::thread sender([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_TRUE(notify(near(), 7).done());
  });
  EXPECT_TRUE(takes.take_bare(std::numeric_limits<int>::max(), queued, tag));
  EXPECT_EQ(tag, 7U);
  sender.join();
}

TEST_F(ShmLinks, TakeNothingByTheShortWayWhileAnotherThreadPolls) {
  far().sink.during = [this] {
    std::atomic<std::size_t> queued{0};
    std::uint32_t tag = 0;
    EXPECT_FALSE(far().link->lane(0).take_bare(1, queued, tag));
  };
  ASSERT_TRUE(notify(near(), 1).done());
  ASSERT_TRUE(notify(near(), 2).done());
  EXPECT_EQ(poll(far()).delivered, 2U);
}

TEST_F(ShmLinks, RefuseTheShortWayToWhatCannotGoAtOnce) {
  ASSERT_NO_FATAL_FAILURE(land());
  Lane& sends = near().link->lane(0);
  const std::vector<std::byte> page(4097);
  EXPECT_FALSE(sends.write_small(*window_, 0, {page.data(), page.size()}, 1));
  const std::vector<Completion> posted = overfill(3);
  EXPECT_FALSE(sends.write_small(*window_, 0, {"farwrite", 8}, 1));  // nothing overtakes these
  poll(far());
  EXPECT_FALSE(sends.write_small(*window_, 0, {"farwrite", 8}, 1));
  poll(near());
  EXPECT_TRUE(sends.write_small(*window_, 0, {"farwrite", 8}, 1));
  ASSERT_TRUE(far().link->revoke(key_, 1, link_hang()).ok());
  EXPECT_FALSE(sends.write_small(*window_, 0, {"late one", 8}, 1));
  EXPECT_EQ(std::memcmp(landing_->base() + 4096, "farwrite", 8), 0);
}

TEST_F(ShmLinks, EndTheShortWayWithTheLink) {
  ASSERT_NO_FATAL_FAILURE(land());
  spoil_far_ring();
  std::atomic<std::size_t> queued{0};
  std::uint32_t tag = 0;
  EXPECT_FALSE(far().link->lane(0).take_bare(1, queued, tag));
  poll(far());
  far().own_mailbox.cells(0)->kind = RecordKind::kNotification;
  EXPECT_FALSE(
      far().link->lane(0).take_bare(1, queued, tag));  // nothing more is read from the ring
  near().link->poison(Status(StatusCode::kPeerDead, "gone"), /*dead=*/true);
  EXPECT_FALSE(near().link->lane(0).write_small(*window_, 0, {"farwrite", 8}, 1));
}

}  // namespace
}  // namespace farwrite::fabric::shm
