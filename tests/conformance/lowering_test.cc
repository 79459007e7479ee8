// Each lowering of a notified write, forced on the simulated fabric by what it says it can do, over
// seeds: the contract and the rules of slots are the same for a user.
#include <cstdlib>

#include "conformance/tensor_fixture.h"

namespace farwrite {
namespace {

struct Lowered {
  NotificationLowering lowering;
  std::uint64_t seed;
};

class Lowerings : public testing::TestWithParam<Lowered> {
 protected:
  Lowerings() : network_(network_options()) {
    DeviceOptions options;
    options.fabrics = {fabric::kSimulated};
    options.huge_pages = HugePages::kOff;
    options.segment_bytes = options.receive_segment_bytes = std::uint64_t{1} << 20;
    options.lanes = 2;
    near_device_ = *Device::open(options);
    far_device_ = *Device::open(options);
    auto accepted = std::async(std::launch::async, [&] { return *far_device_.accept(kHang); });
    near_ = *near_device_.connect(far_device_.endpoint(), kHang);
    far_ = accepted.get();
  }

  static fabric::SimulatedOptions network_options() {
    fabric::SimulatedOptions options;
    options.seed = GetParam().seed;
    options.has_immediate = GetParam().lowering == NotificationLowering::kImmediate;
    options.whole_message_order = GetParam().lowering == NotificationLowering::kTailFlag;
    options.max_chunk_bytes = 512;
    return options;
  }

  fabric::SimulatedNetwork network_;
  const fabric::FabricRegistration simulated_{fabric::simulated_entry(network_)};
  Device near_device_, far_device_;
  Channel near_, far_;
};

TEST_P(Lowerings, NotifiedWritesAreWholeAndKeepTheOrderOfTheirLane) {
  constexpr std::uint32_t kWrites = 30;
  constexpr std::uint64_t kBytes = 3000;
  auto region = far_.allocate(kWrites * kBytes);
  ASSERT_OK(region);
  auto target = near_.open(region->descriptor(), kHang);
  ASSERT_OK(target);
  std::vector<std::vector<std::byte>> sources;
  std::vector<Completion> completions;
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    sources.push_back(make_bytes(kBytes, i));
    completions.push_back(near_.write_with_notify({sources[i].data(), 8},
                                                  {sources[i].data() + 8, kBytes - 8}, *target,
                                                  i * kBytes, 2 * i, i % 2));
    completions.push_back(near_.send({sources[i].data(), 16}, 2 * i + 1, i % 2));
  }
  std::uint32_t next[2] = {0, 2};
  for (std::uint32_t i = 0; i < 2 * kWrites; ++i) {
    auto taken = far_.wait_notification(kHang);
    ASSERT_OK(taken);
    std::uint32_t& expected = next[taken->lane];
    ASSERT_EQ(taken->tag, expected);
    const std::uint32_t write = taken->tag / 2;
    if (taken->tag % 2 == 0) {
      ASSERT_TRUE(holds(region->data() + write * kBytes, kBytes, write));
    } else {
      ASSERT_EQ(std::memcmp(taken->message.data(), sources[write].data(), 16), 0);
    }
    expected += taken->tag % 2 == 0 ? 1 : 3;
  }
  for (const Completion& completion : completions) EXPECT_OK(completion.wait(kHang));
  EXPECT_OK(near_.flush().wait(kHang));
}

TEST_P(Lowerings, StaticEdgesPushInOrderWithThisLoweringForced) {
  const TensorSpec spec{"<f4", 4, {501}};  // its end is no multiple of 8
  ReceiverOptions options = static_edge(spec, 3);
  options.lowering = GetParam().lowering;
  options.lane = 1;
  auto receiver = TensorReceiver::open(far_, "forced", options);
  ASSERT_OK(receiver);
  auto sender = TensorSender::open(near_device_, near_, "forced", kHang);
  ASSERT_OK(sender);
  constexpr std::uint32_t kTensors = 60;
  auto sending = std::async(std::launch::async, [&] {
    for (std::uint32_t i = 1; i <= kTensors; ++i) {
      const std::vector<std::byte> bytes = make_bytes(2004, i);
      EXPECT_OK(wait_until_settled(sender->send(spec, {bytes.data(), bytes.size()})));
    }
    EXPECT_OK(sender->close());
  });
  std::vector<ReceivedTensor> kept;
  for (std::uint32_t i = 1; i <= kTensors; ++i) {
    auto tensor = receiver->receive(kHang);
    ASSERT_OK(tensor);
    ASSERT_EQ(tensor->sequence(), i);
    ASSERT_TRUE(holds(tensor->data(), tensor->size(), i));
    if (i % 7 == 0) kept.push_back(*tensor);
    if (kept.size() == 3) kept.clear();
  }
  EXPECT_CODE(kEndOfStream, receiver->receive(kHang).status());
  sending.get();
  EXPECT_GE(receiver->stats().pushed, 3U) << "as many as there are slots, at least";
  kept.clear();
  EXPECT_OK(receiver->close(kHang));
  expect_balance(*receiver);
}

TEST_P(Lowerings, ResetsBalanceWithThisLoweringForced) {
  const TensorSpec spec = bytes_spec({64});
  ReceiverOptions options = static_edge(spec, 2);
  options.lowering = GetParam().lowering;
  auto receiver = TensorReceiver::open(far_, "resets", options);
  ASSERT_OK(receiver);
  auto sender = TensorSender::open(near_device_, near_, "resets", kHang);
  ASSERT_OK(sender);
  for (std::uint32_t i = 1; i <= 40; ++i) {
    const std::vector<std::byte> bytes = make_bytes(64, i);
    ASSERT_OK(wait_until_settled(sender->send(spec, {bytes.data(), bytes.size()})));
    if (i % 5 == 0) {
      ASSERT_OK(receiver->reset());
    }
    auto tensor = receiver->try_receive();
    ASSERT_OK(tensor);
    if (tensor->has_value()) {
      EXPECT_TRUE(holds((*tensor)->data(), 64, static_cast<std::uint32_t>((*tensor)->sequence())));
    }
    expect_balance(*receiver);
  }
  (void)sender->close(std::chrono::nanoseconds(0));
  Status over;
  while (over.ok()) over = receiver->receive(kHang).status();
  EXPECT_CODE(kEndOfStream, over);
  EXPECT_OK(sender->close(kHang)) << "what a reset dropped is not waited for";
  EXPECT_EQ(receiver->stats().dropped_malformed, 0U);
}

TEST_P(Lowerings, OthersAreRefusedWithTheReason) {
  for (const NotificationLowering other :
       {NotificationLowering::kImmediate, NotificationLowering::kFlushAndMessage,
        NotificationLowering::kTailFlag}) {
    // Where there is no immediate, notified writes are lowered to flush and message.
    const bool used =
        other == GetParam().lowering || (other == NotificationLowering::kFlushAndMessage &&
                                         GetParam().lowering == NotificationLowering::kTailFlag);
    ReceiverOptions options = static_edge(bytes_spec({8}));
    options.lowering = other;
    const Status status =
        TensorReceiver::open(far_, std::string(to_string(other)), options).status();
    EXPECT_EQ(status.ok(), used) << to_string(other) << ": " << status.to_string();
    if (!used) {
      EXPECT_EQ(status.code(), StatusCode::kUnsupported);
    }
  }
  if (GetParam().lowering == NotificationLowering::kTailFlag) {
    ReceiverOptions bounded = bounded_edge("|u1", 1, 100);
    bounded.lowering = NotificationLowering::kTailFlag;
    EXPECT_CODE(kUnsupported, TensorReceiver::open(far_, "bounded", bounded).status());
  }
}

std::vector<Lowered> all() {
  std::vector<Lowered> result;
  for (const NotificationLowering lowering :
       {NotificationLowering::kImmediate, NotificationLowering::kFlushAndMessage,
        NotificationLowering::kTailFlag}) {
    for (std::uint64_t seed = 1; seed <= 5; ++seed) result.push_back({lowering, seed});
  }
  return result;
}

INSTANTIATE_TEST_SUITE_P(OverSeeds, Lowerings, testing::ValuesIn(all()), [](const auto& info) {
  std::string name(to_string(info.param.lowering));
  std::replace(name.begin(), name.end(), ' ', '_');
  return name + "_seed_" + std::to_string(info.param.seed);
});

}  // namespace
}  // namespace farwrite
