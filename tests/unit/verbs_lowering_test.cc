// How a verbs link notifies, and by what it flushes: by what both adapters say they can do.
#include "fabric/notified_writes.h"
#include "unit/verbs_link_fixture.h"

namespace farwrite::fabric::verbs {
namespace {

using testing::HasSubstr;

RnicOptions iwarp() {
  RnicOptions device;
  device.transport = Transport::kIwarp;
  device.supports_immediate = false;
  device.supports_atomics = false;
  device.completes_early = true;
  return device;
}

RnicOptions in_order() {
  RnicOptions device;
  device.data_in_order = true;
  return device;
}

class VerbsLoweringTest : public VerbsPair {
 protected:
  Capabilities refined(const Side& side, const Host& host) const {
    Capabilities capabilities = host.fabric->capabilities();
    side.link->refine(capabilities);
    return capabilities;
  }
  // As a channel does it where writes carry no notification.
  std::shared_ptr<NotifiedWrites> lowered(std::uint32_t lanes) {
    return std::make_shared<NotifiedWrites>(lanes, "verbs", "the peer",
                                            [this](std::uint32_t lane, const Operation& operation) {
                                              return a_.link->lane(lane).post(operation);
                                            });
  }
  std::uint64_t reads() const { return rnic_->posted(IBV_WR_RDMA_READ); }
  std::uint64_t atomics() const { return rnic_->posted(IBV_WR_ATOMIC_FETCH_AND_ADD); }
};

TEST_F(VerbsLoweringTest, ANotificationRidesOnItsWrite) {
  make();
  ASSERT_TRUE(host_a_->fabric->capabilities().has_immediate);
  const std::uint64_t sends = rnic_->posted(IBV_WR_SEND);
  const auto bytes = pattern(100'000);
  for (std::uint32_t tag = 0; tag < 10; ++tag) {
    ASSERT_TRUE(settled(a_.write_with_notify(view_of(bytes), 0, tag)));
  }
  expect_ok(a_.notify(10));
  ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == 11; }));
  EXPECT_EQ(rnic_->posted(IBV_WR_RDMA_WRITE_WITH_IMM), 11U);
  EXPECT_EQ(rnic_->posted(IBV_WR_RDMA_WRITE), 0U);
  EXPECT_EQ(rnic_->posted(IBV_WR_SEND), sends) << "no message, and not yet any credit";
  EXPECT_EQ(reads() + atomics(), 0U);
}

TEST_F(VerbsLoweringTest, WithoutImmediateDataAFlushAndAMessageFollowAndNoTagComesEarly) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    WireOptions wire;
    wire.seed = seed;
    wire.shuffle_within_write = true;
    wire.max_delay = std::chrono::microseconds(20);
    FabricOptions options;
    options.chunk_bytes = 17'000;
    options.receive_credits = 8;
    if (seed % 2 == 0) options.use_immediate = false;
    const std::uint32_t lanes = seed % 3 + 1;
    make(options, lanes, seed % 2 == 0 ? RnicOptions{} : iwarp(), wire);
    ASSERT_FALSE(host_a_->fabric->capabilities().has_immediate);
    EXPECT_EQ(choose_lowering(host_a_->fabric->capabilities())->lowering,
              NotificationLowering::kFlushAndMessage);
    constexpr std::uint32_t kCount = 12;
    std::vector<std::vector<std::byte>> sources;
    for (std::uint32_t i = 0; i < kCount; ++i) sources.push_back(pattern(1 + 40'000 * i / 5, i));
    constexpr std::uint64_t kPlace = 100'000;
    b_.recorder.at_notification = [&](const Notification& one) {
      EXPECT_TRUE(holds(b_.landing->base() + one.tag * kPlace, sources[one.tag])) << one.tag;
    };
    const auto writes = lowered(lanes);
    const std::uint64_t flushes = reads() + atomics();
    std::vector<Completion> completions;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      Operation write = a_.write_operation(view_of(sources[i]), i * kPlace);
      write.notify = true;
      write.tag = i;
      completions.push_back(writes->post(i % lanes, write));
    }
    ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == kCount; }));
    for (const Completion& one : completions) expect_ok(one);
    EXPECT_EQ(rnic_->posted(IBV_WR_RDMA_WRITE_WITH_IMM), 0U);
    EXPECT_GE(reads() + atomics() - flushes, kCount);
    a_.link.reset();
    close();
    a_ = {};
    b_ = {};
  }
}

// The write behind which a message waits is not over yet when the link's outbox becomes full.
TEST_F(VerbsLoweringTest, WhatIsHeldBackIsNotRefusedByAFullLink) {
  FabricOptions options;
  options.receive_credits = 8;
  make(options, 1, iwarp());
  b_.recorder.room = 0;
  const auto writes = lowered(1);
  const auto bytes = pattern(100);
  Operation write = a_.write_operation(view_of(bytes), 0);
  write.notify = true;
  write.tag = 1;
  const Completion written = writes->post(0, write);
  Operation behind;
  behind.kind = OperationKind::kNotify;
  behind.tag = 2;
  const Completion told = writes->post(0, behind);
  ASSERT_FALSE(told.done());
  std::uint32_t sent = 0;
  for (const std::size_t size : {8000, 0}) {  // until not even a notification finds room
    const std::vector<std::byte> message(size);
    Status refusal;
    while (refusal.ok() && sent < 100'000) {
      const Completion filled = a_.tell(OperationKind::kMessage, 3, 0, view_of(message));
      if (filled.done()) refusal = filled.wait();
      if (refusal.ok()) ++sent;
    }
    ASSERT_EQ(refusal.code(), StatusCode::kResourceExhausted);
  }
  ASSERT_TRUE(settled(a_.flush()))
      << "and so is the flush before it, whose turn the messages await";
  EXPECT_FALSE(written.done());
  EXPECT_FALSE(told.done());
  b_.recorder.room = 1 << 30;
  ASSERT_TRUE(until([&] { return b_.recorder.taken.size() == sent + 2; }));
  expect_ok(written);
  expect_ok(told);
}

TEST_F(VerbsLoweringTest, RelaxedMemoryIsFlushedByAnAtomicAndOtherByARead) {
  for (const bool relaxed : {true, false}) {
    FabricOptions options;
    options.relaxed_ordering = relaxed;
    make(options);
    const auto bytes = pattern(100);
    (void)a_.write(view_of(bytes));
    expect_ok(a_.flush());
    EXPECT_TRUE(holds(b_.landing->base(), bytes));
    EXPECT_EQ(atomics(), relaxed ? 1U : 0U);
    EXPECT_EQ(reads(), relaxed ? 0U : 1U);
    close();
    a_ = {};
    b_ = {};
  }
}

TEST_F(VerbsLoweringTest, EachSideFlushesByWhatTheOtherSaysOfItsMemory) {
  FabricOptions relaxed, strict;
  relaxed.relaxed_ordering = true;
  strict.relaxed_ordering = false;
  make_two({}, {}, relaxed, strict);
  const auto bytes = pattern(100);
  (void)a_.write(view_of(bytes));
  expect_ok(a_.flush());
  (void)b_.write(view_of(bytes));
  expect_ok(b_.flush());
  EXPECT_EQ(reads(), 1U) << "b's memory is strict";
  EXPECT_EQ(rnic_b_->posted(IBV_WR_ATOMIC_FETCH_AND_ADD), 1U) << "a's is relaxed";
}

TEST_F(VerbsLoweringTest, RelaxedOrderingWithoutAtomicsIsRefusedAndSaysWhy) {
  SoftwareRnic rnic(iwarp());
  FabricOptions options;
  options.library = &rnic;
  options.relaxed_ordering = true;
  const auto loop = core::EventLoop::start("verbs-test").value();
  const auto fabric = VerbsFabric::create(*loop, options);
  EXPECT_EQ(fabric.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(fabric.status().message(), HasSubstr("leave relaxed_ordering unset"));
  EXPECT_THAT(rnic.leaks(), testing::IsEmpty());
}

TEST_F(VerbsLoweringTest, RelaxedMemoryAndAnAdapterWithoutAtomicsDoNotConnect) {
  const auto network = SoftwareRnic::make_network();
  RnicOptions without;
  without.supports_atomics = false;
  rnic_ = std::make_unique<SoftwareRnic>(without, WireOptions{}, network);
  rnic_b_ = std::make_unique<SoftwareRnic>(RnicOptions{}, WireOptions{}, network);
  host_a_ = std::make_unique<Host>(*rnic_);
  host_b_ = std::make_unique<Host>(*rnic_b_);
  auto accepted = std::async(std::launch::async, [&] {
    return host_b_->fabric->attach(attach_request(false, *host_b_->fabric, 1));
  });
  const Status connected =
      host_a_->fabric->attach(attach_request(true, *host_b_->fabric, 1)).status();
  EXPECT_EQ(connected.code(), StatusCode::kUnavailable);
  EXPECT_THAT(connected.message(), HasSubstr("set relaxed_ordering to false at the peer"));
  (void)accepted.get();
}

TEST_F(VerbsLoweringTest, ATailFlagNeedsAPeerWhoseAdapterKeepsTheOrder) {
  FabricOptions strict;
  strict.relaxed_ordering = false;
  make_two({}, in_order(), strict, strict, 2);
  EXPECT_TRUE(refined(a_, *host_b_).whole_message_order) << "b takes writes in order";
  EXPECT_FALSE(refined(b_, *host_a_).whole_message_order);
  Capabilities all = host_b_->fabric->capabilities();
  b_.link->refine(all);
  EXPECT_FALSE(all.whole_message_order) << "a, where b writes, does not";
  const auto forced = choose_lowering(all, NotificationLowering::kTailFlag);
  EXPECT_EQ(forced.status().code(), StatusCode::kUnsupported);
  EXPECT_THAT(forced.status().message(), HasSubstr("does not guarantee that the end of a write"));
}

TEST_F(VerbsLoweringTest, RelaxedOrderingTakesTheOrderBack) {
  FabricOptions relaxed;
  relaxed.relaxed_ordering = true;
  make_two(in_order(), in_order(), {}, relaxed);
  EXPECT_FALSE(host_b_->fabric->capabilities().whole_message_order);
  EXPECT_FALSE(refined(a_, *host_a_).whole_message_order);
}

TEST_F(VerbsLoweringTest, UnsetOrderingIsRelaxedWhereItCostsNothing) {
  struct Case {
    RnicOptions device;
    bool use_immediate;
    bool by_atomic;
  };
  for (const auto& [device, use_immediate, by_atomic] :
       {Case{{}, true, true}, Case{{}, false, false}, Case{iwarp(), true, false}}) {
    FabricOptions options;
    options.use_immediate = use_immediate;
    make(options, 1, device);
    const auto bytes = pattern(9);
    (void)a_.write(view_of(bytes));
    expect_ok(a_.flush());
    EXPECT_EQ(atomics() > 0, by_atomic);
    close();
    a_ = {};
    b_ = {};
  }
}

}  // namespace
}  // namespace farwrite::fabric::verbs
