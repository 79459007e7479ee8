// What a verbs link posts: chunks, a short queue, inline data, signalled requests, reads.
#include "unit/verbs_link_fixture.h"

namespace farwrite::fabric::verbs {
namespace {

constexpr std::uint64_t kChunk = 64 << 10;

RnicOptions small_messages() {
  RnicOptions device;
  device.ports[0].max_msg_sz = kChunk;
  return device;
}

class VerbsLinkTest : public VerbsPair {
 protected:
  std::uint64_t writes() const {
    return rnic_->posted(IBV_WR_RDMA_WRITE) + rnic_->posted(IBV_WR_RDMA_WRITE_WITH_IMM);
  }
};

TEST_F(VerbsLinkTest, ALongWriteGoesInChunksAndItsTagComesBehindTheLast) {
  make({}, 1, small_messages());
  const auto bytes = pattern(10 * kChunk + 5);
  b_.recorder.at_notification = [&](const Notification&) {
    EXPECT_TRUE(holds(b_.landing->base() + 3, bytes)) << "the tag came before the bytes";
  };
  const Completion written = a_.write_with_notify(view_of(bytes), 3, 7);
  ASSERT_TRUE(until([&] { return !b_.recorder.taken.empty(); }));
  EXPECT_EQ(b_.recorder.taken[0].tag, 7U);
  expect_ok(written);
  EXPECT_EQ(rnic_->posted(IBV_WR_RDMA_WRITE), 10U);
  EXPECT_EQ(rnic_->posted(IBV_WR_RDMA_WRITE_WITH_IMM), 1U);
  EXPECT_EQ(b_.landing->base()[2], std::byte{0});
  EXPECT_EQ(b_.landing->base()[3 + bytes.size()], std::byte{0});
}

TEST_F(VerbsLinkTest, AHeadAndItsSourceAreOneWriteAcrossChunks) {
  make({}, 1, small_messages());
  const auto bytes = pattern(512 + 2 * kChunk);
  Operation operation = a_.write_operation({bytes.data() + 512, 2 * kChunk}, 100);
  operation.head = {bytes.data(), 512};
  operation.notify = true;
  expect_ok(a_.link->lane(0).post(operation));
  ASSERT_TRUE(until([&] { return !b_.recorder.taken.empty(); }));
  EXPECT_TRUE(holds(b_.landing->base() + 100, bytes));
  EXPECT_EQ(writes(), 3U) << "the head goes with the first chunk";
}

TEST_F(VerbsLinkTest, ALongReadGoesInChunks) {
  make({}, 1, small_messages());
  const auto bytes = pattern(5 * kChunk + 1);
  std::memcpy(b_.shown->base() + 9, bytes.data(), bytes.size());
  std::vector<std::byte> destination(bytes.size());
  expect_ok(a_.read({destination.data(), destination.size()}, 9));
  EXPECT_EQ(destination, bytes);
  EXPECT_EQ(rnic_->posted(IBV_WR_RDMA_READ), 6U);
}

TEST_F(VerbsLinkTest, MoreThanTheSendQueueHoldsWaitsAndKeepsItsOrder) {
  FabricOptions options;
  options.send_queue_depth = 16;
  options.receive_credits = 1024;
  make(options, 1, small_messages());
  constexpr std::uint32_t kCount = 500;
  const auto small = pattern(40, 1);
  const auto large = pattern(2 * kChunk + 17, 2);
  rnic_->pause();
  std::vector<Completion> completions;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const bool long_one = i % 50 == 0;
    completions.push_back(
        a_.write_with_notify(view_of(long_one ? large : small), long_one ? kChunk : 0, i));
  }
  EXPECT_LE(writes(), 16U);
  rnic_->resume();
  ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == kCount; }));
  for (std::uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(b_.recorder.taken[i].tag, i);
  for (const Completion& completion : completions) expect_ok(completion);
  EXPECT_TRUE(holds(b_.landing->base(), small));
  EXPECT_TRUE(holds(b_.landing->base() + kChunk, large));
}

TEST_F(VerbsLinkTest, SmallWritesTravelInsideTheirRequest) {
  make();
  const auto bytes = pattern(129);
  const std::uint64_t before = rnic_->inlined();
  expect_ok(a_.write({bytes.data(), 128}));
  EXPECT_EQ(rnic_->inlined(), before + 1);
  expect_ok(a_.write({bytes.data(), 129}));
  EXPECT_EQ(rnic_->inlined(), before + 1) << "longer than inline_bytes";
  EXPECT_EQ(a_.link->counters().copies, 1U) << "from a slot, as its memory is not registered";
  expect_ok(a_.flush());
  EXPECT_TRUE(holds(b_.landing->base(), bytes));
}

TEST_F(VerbsLinkTest, AnAdapterWithoutInlineDataGetsNone) {
  RnicOptions device;
  device.max_inline_data = 0;
  make({}, 1, device);
  const auto bytes = pattern(64);
  expect_ok(a_.write_with_notify(view_of(bytes), 0, 1));
  ASSERT_TRUE(until([&] { return !b_.recorder.taken.empty(); }));
  EXPECT_TRUE(holds(b_.landing->base(), bytes));
  EXPECT_EQ(rnic_->inlined(), 0U);
}

TEST_F(VerbsLinkTest, ManySmallSendsLeakNoSlotAndAskForFewCompletions) {
  make();
  constexpr std::uint32_t kCount = 100'000;
  const auto bytes = pattern(200);  // from a slot
  const std::uint64_t before = rnic_->signalled();
  for (std::uint32_t i = 0; i < kCount; ++i) {
    const Completion written = a_.write({bytes.data(), i % 2 == 0 ? 8U : 200U}, i % 1000);
    if (!written.done() && i % 100 == 0) {
      ASSERT_TRUE(settled(written));
    }
  }
  expect_ok(a_.flush());
  const std::uint64_t signalled = rnic_->signalled() - before;
  EXPECT_GE(signalled, kCount / 16);
  EXPECT_LE(signalled, kCount / 16 + 16) << "every 16th and the flush";
  EXPECT_EQ(rnic_->posted(IBV_WR_RDMA_WRITE), kCount);
}

TEST_F(VerbsLinkTest, EverySlotComesBackAlsoBetweenSignalledRequests) {
  FabricOptions options;
  options.send_queue_depth = 16;
  options.signal_every = 1000;  // cut to half of the slots
  make(options);
  const auto bytes = pattern(500);
  for (std::uint32_t i = 0; i < 2000; ++i) (void)a_.write(view_of(bytes), i * 512);
  expect_ok(a_.flush());
  for (std::uint32_t i = 0; i < 2000; ++i) {
    ASSERT_TRUE(holds(b_.landing->base() + i * 512, bytes)) << i;
  }
}

TEST_F(VerbsLinkTest, MoreReadsThanTheAdapterHasUnderWayAreAllServed) {
  RnicOptions device;
  device.max_qp_rd_atom = 1;
  device.max_qp_init_rd_atom = 2;
  make({}, 2, device);
  const auto bytes = pattern(kSegment);
  std::memcpy(b_.shown->base(), bytes.data(), bytes.size());
  std::vector<std::byte> destination(200 * 1000);
  std::vector<Completion> reads;
  for (std::uint32_t i = 0; i < 200; ++i) {
    reads.push_back(a_.read({destination.data() + i * 1000, 1000}, i * 1000, i % 2));
  }
  for (const Completion& read : reads) expect_ok(read);
  EXPECT_TRUE(holds(b_.shown->base(), destination));
}

TEST_F(VerbsLinkTest, AFlushAnswersForTheWritesOfEveryLane) {
  WireOptions wire;
  wire.max_delay = std::chrono::microseconds(50);
  make({}, 4, small_messages(), wire);
  const auto bytes = pattern(3 * kChunk);
  for (std::uint32_t round = 0; round < 20; ++round) {
    std::memset(b_.landing->base(), 0, kSegment);
    std::vector<Completion> writes;
    for (std::uint32_t lane = 0; lane < 4; ++lane) {
      writes.push_back(
          a_.link->lane(lane).post(a_.write_operation(view_of(bytes), lane * bytes.size())));
    }
    expect_ok(a_.flush());
    for (std::uint32_t lane = 0; lane < 4; ++lane) {
      ASSERT_TRUE(holds(b_.landing->base() + lane * bytes.size(), bytes)) << lane;
      ASSERT_TRUE(settled(writes[lane]));
    }
  }
  const std::uint64_t reads = rnic_->posted(IBV_WR_RDMA_READ);
  expect_ok(a_.flush());
  EXPECT_EQ(rnic_->posted(IBV_WR_RDMA_READ), reads) << "nothing was written since";
}

TEST_F(VerbsLinkTest, NothingAndOneByteAreWritesToo) {
  make();
  const auto bytes = pattern(1);
  expect_ok(a_.write({bytes.data(), 0}));
  expect_ok(a_.read({}));
  EXPECT_EQ(writes(), 0U);
  expect_ok(a_.write_with_notify({bytes.data(), 0}, 0, 4));
  expect_ok(a_.write_with_notify(view_of(bytes), kSegment - 1, 5));
  ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == 2; }));
  EXPECT_EQ(b_.landing->base()[kSegment - 1], bytes[0]);
}

TEST_F(VerbsLinkTest, MessagesAndRecordsOfEveryLengthArriveInOrder) {
  make();
  const auto bytes = pattern(kMaxMessageBytes + kRecordHeadroom);
  std::uint32_t sent = 0;
  for (const std::uint64_t length : {0UL, 1UL, 111UL, 112UL, 113UL, 8191UL, 8192UL}) {
    expect_ok(a_.tell(OperationKind::kMessage, sent++, 0, {bytes.data(), length}));
  }
  expect_ok(a_.tell(OperationKind::kRecord, 1, 0, view_of(bytes)));
  ASSERT_TRUE(until([&] { return b_.recorder.records.size() == 1; }));
  ASSERT_EQ(b_.recorder.taken.size(), sent);
  for (std::uint32_t i = 0; i < sent; ++i) {
    const auto& message = b_.recorder.taken[i].message;
    EXPECT_EQ(b_.recorder.taken[i].tag, i);
    EXPECT_TRUE(std::equal(message.begin(), message.end(), bytes.begin()));
  }
  EXPECT_EQ(b_.recorder.taken.back().message.size(), 8192U);
  EXPECT_EQ(b_.recorder.records[0].message, bytes);
}

}  // namespace
}  // namespace farwrite::fabric::verbs
