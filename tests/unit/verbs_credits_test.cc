// Credits of a verbs link: a receiver that takes nothing holds its sender back, and nothing else.
#include "unit/verbs_link_fixture.h"

namespace farwrite::fabric::verbs {
namespace {

class VerbsCreditsTest : public VerbsPair {
 protected:
  void make_small(std::uint32_t credits = 8, std::uint32_t lanes = 1) {
    FabricOptions options;
    options.receive_credits = credits;
    make(options, lanes);
  }
  std::uint64_t tags_posted() const { return rnic_->posted(IBV_WR_RDMA_WRITE_WITH_IMM); }
};

TEST_F(VerbsCreditsTest, AReceiverThatDoesNotTakeHoldsTheSenderBack) {
  make_small();
  b_.recorder.room = 0;
  constexpr std::uint32_t kCount = 1000;
  std::vector<Completion> completions;
  for (std::uint32_t tag = 0; tag < kCount; ++tag) completions.push_back(a_.notify(tag));
  std::vector<std::byte> destination(100);
  const auto bytes = pattern(100'000);
  // Writes and reads need nothing to take anything.
  expect_ok(a_.read({destination.data(), destination.size()}));
  EXPECT_EQ(destination[99], std::byte{0x5a});
  expect_ok(a_.write(view_of(bytes)));
  expect_ok(a_.flush());
  EXPECT_TRUE(holds(b_.landing->base(), bytes));
  EXPECT_EQ(tags_posted(), 8U);
  EXPECT_FALSE(completions.back().done());
  EXPECT_EQ(a_.link->counters().backlogged, kCount - 8);

  b_.recorder.room = 1 << 30;
  ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == kCount; }));
  for (std::uint32_t tag = 0; tag < kCount; ++tag) ASSERT_EQ(b_.recorder.taken[tag].tag, tag);
  for (const Completion& completion : completions) expect_ok(completion);
}

TEST_F(VerbsCreditsTest, TheBytesOfANotifiedWriteGoAheadAndItsTagStaysInOrder) {
  make_small(4);
  b_.recorder.room = 0;
  const auto bytes = pattern(3000);
  for (std::uint32_t i = 0; i < 100; ++i) {
    expect_ok(a_.write_with_notify(view_of(bytes), i * 3000, i));
    (void)a_.tell(OperationKind::kMessage, 1000 + i, 0, {bytes.data(), 10});
  }
  expect_ok(a_.flush());
  EXPECT_TRUE(holds(b_.landing->base() + 99 * 3000, bytes));
  b_.recorder.room = 1 << 30;
  ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == 200; }));
  for (std::uint32_t i = 0; i < 100; ++i) {
    ASSERT_EQ(b_.recorder.taken[2 * i].tag, i);
    ASSERT_EQ(b_.recorder.taken[2 * i + 1].tag, 1000 + i);
  }
}

TEST_F(VerbsCreditsTest, EveryCountOfCreditsLosesNothingBothWaysAtOnce) {
  for (const std::uint32_t credits : {4U, 5U, 7U, 9U}) {
    SCOPED_TRACE(credits);
    make_small(credits, 2);
    constexpr std::uint32_t kCount = 3000;
    for (std::uint32_t tag = 0; tag < kCount; ++tag) {
      (void)a_.notify(tag, tag % 2);
      (void)b_.tell(OperationKind::kMessage, tag, tag % 2);
    }
    ASSERT_TRUE(until(
        [&] { return a_.recorder.taken.size() == kCount && b_.recorder.taken.size() == kCount; }));
    for (const Side* side : {&a_, &b_}) {
      std::uint32_t next[2] = {0, 1};
      for (const Notification& one : side->recorder.taken) {
        ASSERT_EQ(one.tag, next[one.lane]);
        next[one.lane] += 2;
      }
    }
    close();
    a_ = {};
    b_ = {};
  }
}

TEST_F(VerbsCreditsTest, TooManyThatWaitAreRefusedAndTheLinkGoesOn) {
  make_small();
  b_.recorder.room = 0;
  const std::vector<std::byte> message(8000);
  Status refusal;
  std::uint32_t sent = 0;
  while (refusal.ok() && sent < 100'000) {
    const Completion told = a_.tell(OperationKind::kMessage, sent, 0, view_of(message));
    if (told.done()) refusal = told.wait();
    if (refusal.ok()) ++sent;
  }
  EXPECT_EQ(refusal.code(), StatusCode::kResourceExhausted);
  EXPECT_THAT(refusal.message(), testing::HasSubstr("let the peer take its notifications"));
  EXPECT_GT(sent, 8000U);
  b_.recorder.room = 1 << 30;
  ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == sent; }));
  for (std::uint32_t i = 0; i < sent; ++i) ASSERT_EQ(b_.recorder.taken[i].tag, i);
  expect_ok(a_.notify(1));
}

// Tags of a region that was closed are never sent; what waits behind them must not wait for ever.
TEST_F(VerbsCreditsTest, TheCreditOfATagThatIsDroppedGoesToTheNextThatWaits) {
  make_small(4);
  b_.recorder.room = 0;
  const auto bytes = pattern(100);
  for (std::uint32_t tag = 0; tag < 4; ++tag) expect_ok(a_.notify(tag));
  for (std::uint32_t tag = 4; tag < 20; ++tag) {
    (void)a_.write_with_notify(view_of(bytes), 0, tag);
  }
  const Completion behind = a_.notify(20);
  const Completion end = a_.tell(OperationKind::kEnd);
  ASSERT_TRUE(until(
      [&] { return b_.link->revoke(b_.landing_key, kRegion, core::Deadline::after({})).ok(); }));
  b_.recorder.room = 1 << 30;
  ASSERT_TRUE(until([&] { return b_.progress.drained; })) << "the end of the lane never came";
  ASSERT_EQ(b_.recorder.taken.size(), 5U);
  EXPECT_EQ(b_.recorder.taken.back().tag, 20U);
  expect_ok(behind);
  expect_ok(end);
}

TEST_F(VerbsCreditsTest, ALongWriteThatIsDroppedHalfWayGivesItsCreditBack) {
  FabricOptions options;
  options.receive_credits = 4;
  options.send_queue_depth = 16;
  options.chunk_bytes = 16 << 10;
  make(options);
  const auto bytes = pattern(1 << 20);
  rnic_->pause();
  for (std::uint32_t tag = 0; tag < 3; ++tag) (void)a_.notify(tag);
  const Completion dropped = a_.write_with_notify(view_of(bytes), 0, 99);
  const Completion behind = a_.notify(3);
  EXPECT_FALSE(behind.done()) << "four were under way";
  std::static_pointer_cast<VerbsWindow>(a_.target)->revoked.store(true);
  b_.recorder.room = 0;  // and so no credit comes back
  rnic_->resume();
  expect_ok(behind);
  EXPECT_EQ(outcome(dropped).code(), StatusCode::kFailedPrecondition);
  EXPECT_TRUE(settled(dropped));
  b_.recorder.room = 1 << 30;
  ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == 4; }));
  EXPECT_EQ(b_.recorder.taken[3].tag, 3U);
}

TEST_F(VerbsCreditsTest, AnEndBehindWhatIsHeldBackComesLast) {
  make_small(4);
  b_.recorder.room = 0;
  for (std::uint32_t tag = 0; tag < 50; ++tag) (void)a_.notify(tag);
  expect_ok(a_.tell(OperationKind::kEnd));
  expect_ok(a_.flush());
  EXPECT_FALSE(b_.progress.drained);
  b_.recorder.room = 1 << 30;
  ASSERT_TRUE(until([&] { return b_.progress.drained; }));
  EXPECT_EQ(b_.recorder.taken.size(), 50U);
}

}  // namespace
}  // namespace farwrite::fabric::verbs
