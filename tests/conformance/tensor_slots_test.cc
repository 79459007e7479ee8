// The rules of slots, as a user meets them (docs/explanation/contract.md).
#include "conformance/tensor_fixture.h"

namespace farwrite {
namespace {

class TensorSlots : public Tensors {};

TEST_P(TensorSlots, WithoutAFreeSlotTheTensorIsOfferedAndCounted) {
  const TensorSpec spec = bytes_spec({5000});
  Edge edge = open_edge("full", static_edge(spec, 2));
  ASSERT_TRUE(edge.sender.valid());
  std::vector<ReceivedTensor> kept;
  for (std::uint32_t step = 1; step <= 20; ++step) ASSERT_OK(send(edge.sender, spec, step));
  for (std::uint32_t step = 1; step <= 20; ++step) {
    kept.push_back(take(edge.receiver, spec, step));
    ASSERT_EQ(kept.back().sequence(), step) << "in the order of sending";
    EXPECT_EQ(kept.back().arrival() == Arrival::kPushed, step <= 2);
  }
  TensorStats sent = edge.sender.stats();
  EXPECT_EQ(sent.pushed, 2U);
  EXPECT_EQ(sent.offers_no_slot, 18U);
  EXPECT_EQ(sent.staged, 18U);
  EXPECT_EQ(edge.receiver.stats().slots_viewed, 2U);
  // The views still hold what they held.
  for (std::uint32_t i = 0; i < 20; ++i) EXPECT_TRUE(holds(kept[i].data(), 5000, i + 1));
  kept.clear();
  ASSERT_TRUE(has_slots(edge.sender, 1));
  ASSERT_OK(send(edge.sender, spec, 21));
  EXPECT_EQ(take(edge.receiver, spec, 21).arrival(), Arrival::kPushed) << "slots are free again";
  expect_balance(edge.receiver);
  expect_balance(edge.sender);
}

TEST_P(TensorSlots, OverTheQuotaSendingAtOnceFailsClearlyAndGoesOnLater) {
  const auto send_at_once = [](TensorSender& sender, const TensorSpec& spec, std::uint32_t seed) {
    const std::vector<std::byte> source = make_bytes(*spec.bytes(), seed);
    return wait_until_settled(
        sender.send(spec, {source.data(), source.size()}, std::chrono::nanoseconds(0)));
  };
  Edge edge = open_edge("quota", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid());
  const TensorSpec spec = bytes_spec({20 << 20});
  Status refused;
  std::uint32_t sent = 0;
  while (sent < 5 && (refused = send_at_once(edge.sender, spec, sent + 1)).ok()) ++sent;
  EXPECT_CODE(kResourceExhausted, refused);
  EXPECT_EQ(sent, 3U) << "of 64 MiB";
  for (std::uint32_t step = 1; step <= sent; ++step) {
    EXPECT_TRUE(take(edge.receiver, spec, step).valid());
  }
  EXPECT_TRUE(eventually([&] { return near_device_.stats().leases_held_by_peers == 0; }));
  ASSERT_OK(send(edge.sender, spec, 9));
  EXPECT_EQ(take(edge.receiver, spec, 9).sequence(), 4U) << "what was refused took no number";
}

TEST_P(TensorSlots, ASlotComesBackWithTheLastCopyOfItsTensor) {
  const TensorSpec spec = bytes_spec({10});
  Edge edge = open_edge("copies", static_edge(spec, 1));
  ASSERT_TRUE(edge.sender.valid());
  ASSERT_OK(send(edge.sender, spec, 1));
  ReceivedTensor tensor = take(edge.receiver, spec, 1);
  ReceivedTensor copy = tensor;
  tensor = ReceivedTensor();
  EXPECT_EQ(edge.receiver.stats().slots_viewed, 1U);
  copy = ReceivedTensor();
  EXPECT_EQ(edge.receiver.stats().slots_granted, 1U);
  EXPECT_EQ(edge.receiver.stats().grants, 2U);
}

TEST_P(TensorSlots, ViewsOutliveReceiverChannelDeviceAndPeer) {
  const TensorSpec spec = bytes_spec({70'000});
  Edge pushed = open_edge("pushed", static_edge(spec));
  Edge offered = open_edge("offered", ReceiverOptions());
  ASSERT_TRUE(pushed.sender.valid() && offered.sender.valid());
  ASSERT_OK(send(pushed.sender, spec, 1));
  ASSERT_OK(send(offered.sender, spec, 2));
  const ReceivedTensor a = take(pushed.receiver, spec, 1);
  const ReceivedTensor b = take(offered.receiver, spec, 2);
  ASSERT_TRUE(a.valid() && b.valid());
  pushed = Edge();
  offered = Edge();
  near_ = far_ = Channel();
  EXPECT_OK(far_device_.close(kHang));
  EXPECT_OK(near_device_.close(kHang));
  far_device_ = near_device_ = Device();
  EXPECT_TRUE(holds(a.data(), a.size(), 1));
  EXPECT_TRUE(holds(b.data(), b.size(), 2));
}

TEST_P(TensorSlots, ResetDropsWhatTheSenderSentBeforeItHeardOfIt) {
  const TensorSpec spec = bytes_spec({5000});
  for (const bool has_slots : {true, false}) {
    SCOPED_TRACE(has_slots);
    Edge edge = open_edge(has_slots ? "reset static" : "reset dynamic",
                          has_slots ? static_edge(spec, 4) : ReceiverOptions());
    ASSERT_TRUE(edge.sender.valid());
    ASSERT_OK(send(edge.sender, spec, 1));
    const ReceivedTensor view = take(edge.receiver, spec, 1);
    ASSERT_OK(edge.receiver.reset());
    ASSERT_OK(send(edge.sender, spec, 2));
    EXPECT_TRUE(holds(view.data(), view.size(), 1)) << "views stay";
    // The sender may have received the reset or not; the next one comes after it has.
    EXPECT_TRUE(eventually([&] {
      auto next = edge.receiver.try_receive();
      const TensorStats stats = edge.receiver.stats();
      return stats.dropped_stale + stats.dropped_offers == 1 || (next.ok() && next->has_value());
    }));
    ASSERT_TRUE(eventually([&] {
      EXPECT_OK(send(edge.sender, spec, 3));
      auto next = edge.receiver.try_receive();
      return next.ok() && next->has_value() && holds((*next)->data(), (*next)->size(), 3);
    }));
    if (has_slots) {
      expect_balance(edge.receiver);
      expect_balance(edge.sender);
    }
  }
}

TEST_P(TensorSlots, EveryGrantComesBackExactlyOnceOverManyResets) {
  const TensorSpec spec = bytes_spec({64});
  Edge edge = open_edge("resets", static_edge(spec, 3));
  ASSERT_TRUE(edge.sender.valid());
  std::uint64_t last = 0;
  std::uint32_t seed = 12345;
  for (int turn = 0; turn < 400; ++turn) {
    seed = seed * 1664525 + 1013904223;
    switch (seed >> 16 & 3) {
      case 0:
      case 1:
        ASSERT_OK(send(edge.sender, spec, static_cast<std::uint32_t>(turn)));
        break;
      case 2: {
        auto next = edge.receiver.try_receive();
        ASSERT_OK(next);
        if (!next->has_value()) break;
        EXPECT_GT((*next)->sequence(), last);
        last = (*next)->sequence();
        break;
      }
      default:
        if ((seed >> 20 & 3) == 0) {
          ASSERT_OK(edge.receiver.reset());
        }
        break;
    }
    expect_balance(edge.receiver);
  }
  // All that was sent is received or dropped in the end, and every slot granted again.
  ASSERT_TRUE(eventually([&] {
    EXPECT_OK(edge.receiver.try_receive());
    return edge.receiver.stats().slots_granted == 3;
  }));
  const TensorStats received = edge.receiver.stats();
  EXPECT_EQ(received.dropped_malformed, 0U);
  EXPECT_EQ(received.grants, received.pushed + received.dropped_stale + received.revoked + 3);
}

TEST_P(TensorSlots, ClosingAccountsForEverySlot) {
  const TensorSpec spec = bytes_spec({64});
  Edge edge = open_edge("close", static_edge(spec, 5));
  ASSERT_TRUE(edge.sender.valid());
  for (std::uint32_t step = 1; step <= 3; ++step) ASSERT_OK(send(edge.sender, spec, step));
  ReceivedTensor view = take(edge.receiver, spec, 1);
  ASSERT_TRUE(take(edge.receiver, spec, 2).valid());
  EXPECT_TRUE(eventually([&] {
    EXPECT_OK(send(edge.sender, spec, 9));
    return edge.receiver.stats().grants > 5;
  }));
  EXPECT_OK(edge.receiver.close(kHang));
  EXPECT_OK(edge.receiver.close(kHang));
  TensorStats stats = edge.receiver.stats();
  EXPECT_EQ(stats.slots_granted, 0U);
  EXPECT_EQ(stats.slots_landed, 0U);
  EXPECT_EQ(stats.slots_viewed, 1U);
  view = ReceivedTensor();
  stats = edge.receiver.stats();
  EXPECT_EQ(stats.slots_free, 5U);
  expect_balance(edge.receiver);
}

FARWRITE_EVERY_FABRIC(TensorSlots);

}  // namespace
}  // namespace farwrite
