// Where a peer's memory is not mapped, offered tensors are read: several at a time.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "conformance/tensor_fixture.h"

namespace farwrite {
namespace {

struct Case {
  std::uint64_t bytes;  // of a tensor
  std::uint64_t reads;  // that are under way at the same time
};

class ReadTensors : public Tensors {
 protected:
  // Sends the same registered memory, which is lent however small it is, and waits until the far
  // channel has all of it.
  void send_from(const MemoryRegion& region, const Edge& edge, const TensorSpec& spec,
                 std::uint64_t count) {
    const std::uint64_t before = far_.stats().messages_received;
    TensorSender sender = edge.sender;
    for (std::uint64_t i = 0; i < count; ++i) {
      const Completion sent = sender.send(spec, {region.data(), *spec.bytes()});
      ASSERT_FALSE(sent.done() && !sent.wait().ok());
    }
    if (GetParam().fabric == FabricKind::kTcp) {
      // A poller takes them in, and no edge has seen one yet.
      EXPECT_TRUE(eventually([&] { return far_.stats().messages_received >= before + count; }));
      return;
    }
    const std::string name = "behind " + std::to_string(before);
    Edge behind = open_edge(name, ReceiverOptions());
    ASSERT_OK(send(behind.sender, bytes_spec({1}), 1));
    EXPECT_TRUE(take(behind.receiver, bytes_spec({1}), 1).valid());
  }
};

TEST_P(ReadTensors, ARoundTripServesAFewLargeOnesOrManySmallOnes) {
  for (const Case& known : {Case{64, 64}, Case{8192, 8}, Case{100'000, 4}}) {
    SCOPED_TRACE(known.bytes);
    constexpr std::uint32_t kTensors = 100;
    const TensorSpec spec = bytes_spec({known.bytes});
    auto region = near_device_.allocate(known.bytes);
    ASSERT_OK(region);
    const std::vector<std::byte> content = make_bytes(known.bytes, 7);
    std::memcpy(region->data(), content.data(), content.size());
    ReceiverOptions options;
    options.copy_offers = true;
    Edge edge = open_edge("of " + std::to_string(known.bytes), options);
    ASSERT_TRUE(edge.sender.valid());
    send_from(*region, edge, spec, kTensors);
    for (std::uint32_t number = 1; number <= kTensors; ++number) {
      const ReceivedTensor tensor = take(edge.receiver, spec, 7);
      ASSERT_TRUE(tensor.valid());
      EXPECT_EQ(tensor.sequence(), number);
      EXPECT_EQ(tensor.arrival(), Arrival::kRead);
      // Where memory is mapped, reading is copying, and each is over before the next.
      const std::uint64_t at_once = far_.maps_peer_memory() ? 1 : known.reads;
      const std::uint64_t begun = (number + at_once - 1) / at_once * at_once;
      ASSERT_EQ(edge.receiver.stats().requests, std::min<std::uint64_t>(begun, kTensors));
    }
    EXPECT_EQ(edge.receiver.stats().read, kTensors);
    EXPECT_OK(edge.sender.close(kHang));
  }
}

TEST_P(ReadTensors, ThoseThatAreReadAheadGoWithAResetAndAClose) {
  constexpr std::uint32_t kTensors = 40;
  const TensorSpec spec = bytes_spec({64});
  auto region = near_device_.allocate(64);
  ASSERT_OK(region);
  const std::vector<std::byte> content = make_bytes(64, 3);
  std::memcpy(region->data(), content.data(), content.size());
  ReceiverOptions options;
  options.copy_offers = true;
  Edge edge = open_edge("dropped", options);
  ASSERT_TRUE(edge.sender.valid());
  const auto nothing_is_lent = [&] { return near_device_.stats().leases_held_by_peers == 0; };
  send_from(*region, edge, spec, kTensors);
  ASSERT_TRUE(take(edge.receiver, spec, 3).valid());
  ASSERT_OK(edge.receiver.reset());
  EXPECT_EQ(edge.receiver.stats().dropped_unseen + edge.receiver.stats().read, kTensors);
  EXPECT_TRUE(eventually(nothing_is_lent));
  // Offers from before the sender knows of the reset are dropped.
  Result<ReceivedTensor> tensor = Status(StatusCode::kDeadlineExceeded, "none yet");
  EXPECT_TRUE(eventually([&] {
    send_from(*region, edge, spec, 5);
    tensor = edge.receiver.receive(std::chrono::milliseconds(20));
    return tensor.ok();
  }));
  ASSERT_OK(tensor);
  EXPECT_GT(tensor->sequence(), kTensors);
  EXPECT_TRUE(holds(tensor->data(), tensor->size(), 3));
  ASSERT_OK(edge.receiver.close(kHang));
  EXPECT_TRUE(eventually(nothing_is_lent));
}

FARWRITE_EVERY_FABRIC(ReadTensors);

}  // namespace
}  // namespace farwrite
