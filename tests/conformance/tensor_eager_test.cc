// Small tensors without a slot travel in their offers, and need no send memory.
#include <chrono>
#include <cstdint>
#include <future>
#include <string>
#include <vector>

#include "conformance/tensor_fixture.h"

namespace farwrite {
namespace {

constexpr std::uint64_t kLargestEager = 4096;    // that is eager
constexpr std::uint32_t kMostEagerAhead = 1024;  // that a receiver is behind

class EagerTensors : public Tensors {};

TEST_P(EagerTensors, UpToTheLargestSizeNothingIsLent) {
  for (const bool copy : {false, true}) {
    SCOPED_TRACE(copy);
    ReceiverOptions options;
    options.copy_offers = copy;
    Edge edge = open_edge(copy ? "copied" : "as it is", options);
    ASSERT_TRUE(edge.sender.valid());
    const std::uint64_t leases = near_.stats().leases_granted;
    std::uint32_t step = 0;
    for (const std::uint64_t size : {1, 2, 63, 64, 65, 1000, 4095, 4096}) {
      SCOPED_TRACE(size);
      if (size + 200 > near_.max_message_bytes()) continue;  // with the rest of the offer
      std::vector<std::byte> source = make_bytes(size, ++step);
      const Completion sent = edge.sender.send(bytes_spec({size}), {source.data(), size});
      EXPECT_TRUE(sent.done());
      ASSERT_OK(sent.wait(kHang));
      std::fill(source.begin(), source.end(), std::byte{0});  // it may be used again
      const ReceivedTensor tensor = take(edge.receiver, bytes_spec({size}), step);
      ASSERT_TRUE(tensor.valid());
      EXPECT_EQ(tensor.arrival(), Arrival::kEager);
      EXPECT_EQ(tensor.sequence(), step);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
    }
    EXPECT_EQ(edge.sender.stats().eager, step);
    EXPECT_EQ(edge.sender.stats().offered, step);
    EXPECT_EQ(edge.sender.stats().staged, 0U);
    EXPECT_EQ(edge.receiver.stats().eager, step);
    EXPECT_EQ(edge.receiver.stats().allocations, step);
    EXPECT_EQ(near_.stats().leases_granted, leases);
    ASSERT_OK(send(edge.sender, bytes_spec({kLargestEager + 1}), 77));
    EXPECT_NE(take(edge.receiver, bytes_spec({kLargestEager + 1}), 77).arrival(), Arrival::kEager);
  }
}

TEST_P(EagerTensors, RegisteredMemoryIsLentWhateverItsSize) {
  Edge edge = open_edge("registered", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid());
  auto region = near_device_.allocate(64);
  ASSERT_OK(region);
  const std::vector<std::byte> content = make_bytes(64, 3);
  std::memcpy(region->data(), content.data(), content.size());
  const Completion sent = edge.sender.send(bytes_spec({64}), {region->data(), 64});
  EXPECT_NE(take(edge.receiver, bytes_spec({64}), 3).arrival(), Arrival::kEager);
  EXPECT_OK(sent.wait(kHang));
  EXPECT_EQ(edge.sender.stats().eager, 0U);
}

TEST_P(EagerTensors, WithoutASlotASmallTensorIsEager) {
  const TensorSpec spec = bytes_spec({100});
  for (const ReceiverOptions& options : {static_edge(spec, 2), bounded_edge("|u1", 1, 100, 2)}) {
    SCOPED_TRACE(to_string(options.kind));
    Edge edge = open_edge(std::string(to_string(options.kind)), options);
    ASSERT_TRUE(edge.sender.valid());
    ASSERT_TRUE(has_slots(edge.sender, 2));
    for (std::uint32_t step = 1; step <= 10; ++step) ASSERT_OK(send(edge.sender, spec, step));
    for (std::uint32_t step = 1; step <= 10; ++step) {
      const ReceivedTensor tensor = take(edge.receiver, spec, step);
      EXPECT_EQ(tensor.arrival(), step <= 2 ? Arrival::kPushed : Arrival::kEager);
    }
    EXPECT_EQ(edge.sender.stats().offers_no_slot, 8U);
    EXPECT_EQ(edge.sender.stats().eager, 8U);
    expect_balance(edge.receiver);
    expect_balance(edge.sender);
  }
}

TEST_P(EagerTensors, AreReceivedAfterTheSenderHasGone) {
  Edge edge = open_edge("gone", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid());
  for (std::uint32_t step = 1; step <= 5; ++step) {
    ASSERT_OK(send(edge.sender, bytes_spec({200}), step));
  }
  ASSERT_OK(edge.sender.abandon());
  edge.sender = TensorSender();
  ASSERT_OK(near_.close(kHang));
  for (std::uint32_t step = 1; step <= 5; ++step) {
    const ReceivedTensor tensor = take(edge.receiver, bytes_spec({200}), step);
    ASSERT_TRUE(tensor.valid());
    EXPECT_EQ(tensor.arrival(), Arrival::kEager);
  }
  EXPECT_CODE(kUnavailable, edge.receiver.receive(kHang).status());
}

// The receiver keeps a bounded number of eager tensors. The sender lends the ones after them.
TEST_P(EagerTensors, AReceiverThatIsBehindIsNotFilled) {
  Edge edge = open_edge("behind", ReceiverOptions());
  Edge other = open_edge("beside it", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid() && other.sender.valid());
  const TensorSpec spec = bytes_spec({16});
  constexpr std::uint32_t kSent = kMostEagerAhead + 300;
  for (std::uint32_t step = 1; step <= kSent; ++step) {
    ASSERT_OK(send(edge.sender, spec, step));
    if (step % 100 != 0) continue;
    // The receiving side takes what comes, for every edge.
    ASSERT_OK(send(other.sender, spec, step));
    EXPECT_TRUE(take(other.receiver, spec, step).valid());
  }
  EXPECT_EQ(edge.sender.stats().eager, kMostEagerAhead);
  EXPECT_EQ(edge.sender.stats().staged, kSent - kMostEagerAhead);
  // It says so when it has taken some, although others wait: small tensors are eager again.
  for (std::uint32_t step = 1; step <= kSent - 500; ++step) {
    ASSERT_TRUE(take(edge.receiver, spec, step).valid());
  }
  std::uint32_t last = kSent;
  EXPECT_TRUE(eventually([&] {
    EXPECT_OK(send(edge.sender, spec, ++last));
    return edge.sender.stats().eager > kMostEagerAhead;
  }));
  for (std::uint32_t step = kSent - 499; step <= last; ++step) {
    ASSERT_TRUE(take(edge.receiver, spec, step).valid());
  }
  EXPECT_OK(edge.sender.close(kHang));
}

TEST_P(EagerTensors, AResetDropsThem) {
  Edge edge = open_edge("reset", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid());
  const TensorSpec spec = bytes_spec({30});
  for (std::uint32_t step = 1; step <= 3; ++step) ASSERT_OK(send(edge.sender, spec, step));
  EXPECT_TRUE(take(edge.receiver, spec, 1).valid());
  ASSERT_OK(edge.receiver.reset());
  // The sender learns of the reset in its own time: what it sends before that is dropped as well.
  std::uint32_t step = 3;
  Result<ReceivedTensor> tensor = Status(StatusCode::kDeadlineExceeded, "none yet");
  EXPECT_TRUE(eventually([&] {
    EXPECT_OK(send(edge.sender, spec, ++step));
    tensor = edge.receiver.receive(std::chrono::milliseconds(20));
    return tensor.ok();
  }));
  ASSERT_OK(tensor);
  EXPECT_TRUE(holds(tensor->data(), 30, static_cast<std::uint32_t>(tensor->sequence())));
  EXPECT_GT(tensor->sequence(), 3U);
}

// Of the fabrics whose lanes are bounded.
class FullLane : public Tensors {};

// Without send memory as well, the receiver's next report helps.
TEST_P(EagerTensors, WhereNothingIsLeftToLendTheReportOfTheReceiverIsWaitedFor) {
  Edge edge = open_edge("no memory", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid());
  std::vector<MemoryRegion> all;
  for (std::uint64_t bytes = 64 << 20; bytes > 0; bytes /= 2) {
    while (true) {
      auto region = near_device_.allocate(bytes);
      if (!region.ok()) break;
      all.push_back(*std::move(region));
    }
  }
  const TensorSpec spec = bytes_spec({16});
  for (std::uint32_t step = 1; step <= kMostEagerAhead; ++step) {
    ASSERT_OK(send(edge.sender, spec, step));
  }
  const std::vector<std::byte> next = make_bytes(16, kMostEagerAhead + 1);
  EXPECT_CODE(kResourceExhausted, edge.sender.send(spec, {next.data(), 16}, {}).wait(kHang));
  EXPECT_CODE(kDeadlineExceeded,
              edge.sender.send(spec, {next.data(), 16}, std::chrono::milliseconds(20)).wait(kHang));
  auto sending =
      std::async(std::launch::async, [&] { return send(edge.sender, spec, kMostEagerAhead + 1); });
  for (std::uint32_t step = 1; step <= kMostEagerAhead + 1; ++step) {
    ASSERT_TRUE(take(edge.receiver, spec, step).valid());
  }
  EXPECT_OK(sending.get());
}

// Nothing but the lane is short: sending waits for it, and says so in time.
TEST_P(FullLane, IsWaitedForAlsoWhereTheReceiverHoldsNothing) {
  std::vector<Edge> edges;
  const TensorSpec spec = bytes_spec({4000});  // a lane without credit keeps 64 MiB
  Status refused;
  for (int i = 0; i < 40 && refused.ok(); ++i) {
    edges.push_back(open_edge("lane " + std::to_string(i), ReceiverOptions()));
    ASSERT_TRUE(edges.back().sender.valid());
    const std::vector<std::byte> source = make_bytes(4000, 1);
    for (std::uint32_t sent = 0; sent < kMostEagerAhead && refused.ok(); ++sent) {
      const Completion posted = edges.back().sender.send(spec, {source.data(), source.size()},
                                                         std::chrono::milliseconds(50));
      if (posted.done()) refused = posted.wait();
    }
  }
  EXPECT_CODE(kDeadlineExceeded, refused);
  EXPECT_EQ(near_device_.stats().leases_held_by_peers, 0U);
}

FARWRITE_EVERY_FABRIC(EagerTensors);
FARWRITE_FABRICS_OF_PROGRAMS(ShmAndTcp, FullLane);

}  // namespace
}  // namespace farwrite
