// Tensors arrive as they were sent, whatever the kind of their edge.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

#include "conformance/tensor_fixture.h"

namespace farwrite {
namespace {

// A tensor of every rank; the dims multiply to something small.
std::vector<std::uint64_t> dims_of_rank(std::size_t rank) {
  std::vector<std::uint64_t> dims(rank, 1);
  for (std::size_t i = 0; i < rank && i < 4; ++i) dims[i] = i + 2;
  return dims;
}

TEST_P(Tensors, StaticEdgesPushIntoSlotsAtEveryRank) {
  for (std::size_t rank = 0; rank <= kMaxDimensions; ++rank) {
    SCOPED_TRACE(rank);
    const TensorSpec spec{"<f4", 4, dims_of_rank(rank)};
    Edge edge = open_edge("rank " + std::to_string(rank), static_edge(spec));
    ASSERT_TRUE(edge.sender.valid());
    EXPECT_EQ(edge.sender.kind(), EdgeKind::kStatic);
    EXPECT_TRUE(edge.sender.announced() == spec);
    for (std::uint32_t step = 1; step <= 5; ++step) {
      ASSERT_TRUE(has_slots(edge.sender, 1));
      ASSERT_OK(send(edge.sender, spec, step));
      const ReceivedTensor tensor = take(edge.receiver, spec, step);
      ASSERT_TRUE(tensor.valid());
      EXPECT_EQ(tensor.sequence(), step);
      EXPECT_EQ(tensor.arrival(), Arrival::kPushed);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
    }
  }
}

TEST_P(Tensors, BoundedEdgesCarryTheShapeWithTheBytes) {
  Edge edge = open_edge("bounded", bounded_edge("<i2", 2, 100'000));
  ASSERT_TRUE(edge.sender.valid());
  EXPECT_EQ(edge.sender.kind(), EdgeKind::kBounded);
  std::uint32_t step = 0;
  for (std::size_t rank = 0; rank <= kMaxDimensions; ++rank) {
    SCOPED_TRACE(rank);
    const TensorSpec spec{"<i2", 2, dims_of_rank(rank)};
    ASSERT_TRUE(has_slots(edge.sender, 1));
    ASSERT_OK(send(edge.sender, spec, ++step));
    EXPECT_EQ(take(edge.receiver, spec, step).arrival(), Arrival::kPushed);
  }
  const TensorSpec largest{"<i2", 2, {50'000}};
  ASSERT_TRUE(has_slots(edge.sender, 1));
  ASSERT_OK(send(edge.sender, largest, 77));
  EXPECT_EQ(take(edge.receiver, largest, 77).size(), 100'000U);
  EXPECT_CODE(kInvalidArgument, send(edge.sender, {"<i2", 2, {50'001}}, 1));
  EXPECT_CODE(kInvalidArgument, send(edge.sender, {"<u2", 2, {4}}, 1));
}

TEST_P(Tensors, DynamicEdgesCarryEverythingWithTheOffer) {
  for (const bool copy : {false, true}) {
    SCOPED_TRACE(copy);
    ReceiverOptions options;
    options.copy_offers = copy;
    Edge edge = open_edge(copy ? "read" : "aliased", options);
    ASSERT_TRUE(edge.sender.valid());
    for (std::size_t rank = 1; rank <= kMaxDimensions; ++rank) {
      SCOPED_TRACE(rank);
      TensorSpec spec{rank % 2 == 0 ? "<f8" : "some.dtype", 8, dims_of_rank(rank)};
      spec.dims[0] *= 512;  // too large for its offer
      const auto seed = static_cast<std::uint32_t>(rank);
      ASSERT_OK(send(edge.sender, spec, seed));
      const ReceivedTensor tensor = take(edge.receiver, spec, seed);
      ASSERT_TRUE(tensor.valid());
      if (copy) {
        EXPECT_EQ(tensor.arrival(), Arrival::kRead);
      }
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(tensor.data()) % 64, 0U);
    }
    const TensorStats received = edge.receiver.stats();
    EXPECT_EQ(received.offered, kMaxDimensions);
    EXPECT_EQ(received.aliased + received.read, kMaxDimensions);
    EXPECT_EQ(received.allocations, received.read) << "one for each that is read";
    EXPECT_EQ(edge.sender.stats().staged, kMaxDimensions) << "the sources were anywhere";
    EXPECT_EQ(edge.sender.stats().offers_no_slot, 0U);
  }
}

TEST_P(Tensors, EmptyTensorsArriveOnEveryKindOfEdge) {
  const TensorSpec empty{"<f4", 4, {3, 0, 7}};
  const std::vector<ReceiverOptions> kinds = {static_edge(empty), bounded_edge("<f4", 4, 0),
                                              ReceiverOptions()};
  for (const ReceiverOptions& options : kinds) {
    SCOPED_TRACE(to_string(options.kind));
    Edge edge = open_edge(std::string(to_string(options.kind)), options);
    ASSERT_TRUE(edge.sender.valid());
    for (std::uint32_t step = 1; step <= 5; ++step) {
      ASSERT_OK(edge.sender.send(empty, {}).wait(kHang));
    }
    // More than there are slots: the rest was offered.
    for (std::uint32_t step = 1; step <= 5; ++step) {
      EXPECT_EQ(take(edge.receiver, empty, 0).sequence(), step);
    }
  }
}

TEST_P(Tensors, MemoryOfTheDeviceIsOfferedWithoutACopyAndFreeWhenTheViewIsGone) {
  Edge edge = open_edge("lent", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid());
  const TensorSpec spec = bytes_spec({300'000});
  auto region = near_device_.allocate(300'000);
  ASSERT_OK(region);
  const std::vector<std::byte> content = make_bytes(300'000, 5);
  std::memcpy(region->data(), content.data(), content.size());
  const Completion sent = edge.sender.send(spec, {region->data(), region->size()});
  ReceivedTensor tensor = take(edge.receiver, spec, 5);
  ASSERT_TRUE(tensor.valid());
  if (tensor.arrival() == Arrival::kAliased) {
    EXPECT_FALSE(sent.done()) << "the receiver looks at it";
  }
  tensor = ReceivedTensor();
  EXPECT_OK(sent.wait(kHang));
  EXPECT_EQ(edge.sender.stats().staged, 0U);
  EXPECT_EQ(edge.sender.stats().allocations, 0U);
}

TEST_P(Tensors, AnAllocatorOfTheUserTakesWhatIsReadAndWhatComesEagerly) {
  for (const std::uint64_t unit : {1, 1000}) {
    SCOPED_TRACE(unit);
    std::vector<std::uint64_t> asked;
    bool has_memory = false;
    ReceiverOptions options;
    options.copy_offers = true;
    options.allocator = [&](const TensorSpec& spec, std::uint64_t bytes) -> Result<TensorMemory> {
      asked.push_back(bytes);
      EXPECT_EQ(spec.dtype, "|u1");
      if (bytes == 13 * unit && !has_memory)
        return Status(StatusCode::kResourceExhausted, "no memory today");
      auto memory = std::make_shared<std::vector<std::byte>>(bytes);
      return TensorMemory{memory->data(), memory};
    };
    Edge edge = open_edge("own memory of " + std::to_string(unit), options);
    ASSERT_TRUE(edge.sender.valid());
    ASSERT_OK(send(edge.sender, bytes_spec({100 * unit}), 1));
    EXPECT_EQ(take(edge.receiver, bytes_spec({100 * unit}), 1).arrival(),
              unit == 1 ? Arrival::kEager : Arrival::kRead);
    ASSERT_OK(send(edge.sender, bytes_spec({13 * unit}), 2));
    EXPECT_CODE(kResourceExhausted, edge.receiver.receive(kHang).status());
    ASSERT_OK(send(edge.sender, bytes_spec({50 * unit}), 3));
    EXPECT_CODE(kResourceExhausted, edge.receiver.receive(kHang).status());
    has_memory = true;
    EXPECT_TRUE(take(edge.receiver, bytes_spec({13 * unit}), 2).valid()) << "it stays the next one";
    EXPECT_TRUE(take(edge.receiver, bytes_spec({50 * unit}), 3).valid());
    EXPECT_EQ(asked,
              (std::vector<std::uint64_t>{100 * unit, 13 * unit, 13 * unit, 13 * unit, 50 * unit}));
  }
}

TEST_P(Tensors, ThreadsThatAreRefusedMemoryNowAndThenLeaveNoTensorOut) {
  constexpr std::uint32_t kTensors = 200;
  std::atomic<std::uint32_t> asked = 0;
  ReceiverOptions options;
  options.copy_offers = true;
  options.allocator = [&](const TensorSpec&, std::uint64_t bytes) -> Result<TensorMemory> {
    if (++asked % 2 == 0) return Status(StatusCode::kResourceExhausted, "no memory now");
    auto memory = std::make_shared<std::vector<std::byte>>(bytes);
    return TensorMemory{memory->data(), memory};
  };
  Edge edge = open_edge("refused now and then", options);
  ASSERT_TRUE(edge.sender.valid());
  std::atomic<std::uint32_t> received = 0;
  std::atomic<std::uint64_t> sequences = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      while (received < kTensors) {
        Result<ReceivedTensor> tensor = edge.receiver.receive(std::chrono::milliseconds(20));
        if (!tensor.ok()) continue;
        ++received;
        sequences += tensor->sequence();
        ASSERT_NE(tensor->data(), nullptr);
        EXPECT_EQ(*tensor->data(), static_cast<std::byte>(tensor->size() % 251));
      }
    });
  }
  for (std::uint32_t i = 0; i < kTensors; ++i) {
    const std::uint64_t size = (i % 3 == 0 ? 1000 : 5000) + i;  // some are in their offers
    const std::vector<std::byte> content(size, static_cast<std::byte>(size % 251));
    EXPECT_OK(
        edge.sender.send(bytes_spec({size}), {content.data(), content.size()}, kHang).wait(kHang));
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(received, kTensors);
  EXPECT_EQ(sequences, std::uint64_t{kTensors} * (kTensors + 1) / 2) << "from 1 on";
}

TEST_P(Tensors, SteadyStaticPushesAskAllocateAndRegisterNothing) {
  const TensorSpec spec{"<f4", 4, {1000}};
  Edge edge = open_edge("steady", static_edge(spec));
  ASSERT_TRUE(edge.sender.valid());
  const auto step = [&](std::uint32_t seed) {
    ASSERT_TRUE(has_slots(edge.sender, 1));
    ASSERT_OK(send(edge.sender, spec, seed));
    EXPECT_EQ(take(edge.receiver, spec, seed).arrival(), Arrival::kPushed);
  };
  step(1);
  step(2);
  const TensorStats sender = edge.sender.stats(), receiver = edge.receiver.stats();
  for (std::uint32_t seed = 3; seed <= 50; ++seed) step(seed);
  for (const auto& [now, before] :
       {std::pair(edge.sender.stats(), sender), std::pair(edge.receiver.stats(), receiver)}) {
    EXPECT_EQ(now.pushed, before.pushed + 48);
    EXPECT_EQ(now.requests, before.requests);
    EXPECT_EQ(now.allocations, before.allocations);
    EXPECT_EQ(now.registrations, before.registrations);
    EXPECT_EQ(now.offered, 0U);
  }
}

TEST_P(Tensors, ManyEdgesInBothDirectionsShareAChannel) {
  constexpr std::uint32_t kEdges = 8;
  constexpr std::uint32_t kSteps = 30;
  const TensorSpec spec = bytes_spec({500});
  const auto options = [&](std::uint32_t i) {
    ReceiverOptions options = i % 3 == 0   ? static_edge(spec)
                              : i % 3 == 1 ? bounded_edge("|u1", 1, 500)
                                           : ReceiverOptions();
    options.lane = i % lanes();
    return options;
  };
  // One thread per edge's end; each takes what comes for all of its side.
  const auto receive_all = [&](Channel& channel, std::uint32_t i) {
    auto receiver = TensorReceiver::open(channel, std::to_string(i), options(i));
    ASSERT_OK(receiver);
    for (std::uint32_t step = 1; step <= kSteps; ++step) {
      ASSERT_EQ(take(*receiver, spec, i * 100 + step).sequence(), step);
    }
    EXPECT_CODE(kEndOfStream, receiver->receive(kHang).status());
  };
  const auto send_all = [&](Device& device, Channel& channel, std::uint32_t i) {
    auto sender = TensorSender::open(device, channel, std::to_string(i), kHang);
    ASSERT_OK(sender);
    for (std::uint32_t step = 1; step <= kSteps; ++step) {
      ASSERT_OK(send(*sender, spec, i * 100 + step));
    }
    EXPECT_OK(sender->close());
  };
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kEdges; ++i) {
    const bool forth = i % 2 == 0;
    threads.emplace_back([&, i, forth] { receive_all(forth ? far_ : near_, i); });
    threads.emplace_back(
        [&, i, forth] { send_all(forth ? near_device_ : far_device_, forth ? near_ : far_, i); });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Tensors, WhatDoesNotFitTheEdgeIsRefused) {
  const TensorSpec spec{"<f4", 4, {2, 3}};
  Edge edge = open_edge("picky", static_edge(spec));
  ASSERT_TRUE(edge.sender.valid());
  const std::vector<std::byte> bytes(64);
  EXPECT_CODE(kInvalidArgument, edge.sender.send(spec, {bytes.data(), 23}).wait(kHang));
  EXPECT_CODE(kInvalidArgument, send(edge.sender, {"<f4", 4, {3, 2}}, 1));
  EXPECT_CODE(kInvalidArgument, send(edge.sender, {"<i4", 4, {2, 3}}, 1));
  const std::vector<std::uint64_t> huge(3, std::uint64_t{1} << 30);
  EXPECT_CODE(kInvalidArgument, edge.sender.send({"<f4", 4, huge}, {}).wait(kHang));
  ASSERT_OK(send(edge.sender, spec, 1));
  EXPECT_EQ(take(edge.receiver, spec, 1).sequence(), 1U) << "what was refused took no number";
}

TEST_P(Tensors, ImpossibleReceiversAreRefused) {
  const auto open = [&](const std::string& name, const ReceiverOptions& options) {
    return TensorReceiver::open(far_, name, options).status();
  };
  EXPECT_CODE(kInvalidArgument, open("", ReceiverOptions()));
  const std::string too_long(kMaxNameBytes + 1, 'x');
  EXPECT_CODE(kInvalidArgument, open(too_long, ReceiverOptions()));
  EXPECT_CODE(kInvalidArgument, TensorSender::open(near_device_, near_, too_long, kHang).status());
  EXPECT_CODE(kInvalidArgument, open("a", static_edge(bytes_spec({1}), 0)));
  EXPECT_CODE(kInvalidArgument, open("a", static_edge(bytes_spec({1}), kMaxSlots + 1)));
  EXPECT_CODE(kInvalidArgument,
              open("a", static_edge(bytes_spec(std::vector<std::uint64_t>(17, 1)))));
  EXPECT_CODE(kInvalidArgument, open("a", bounded_edge(std::string(513, 'f'), 4, 8)));
  EXPECT_CODE(kInvalidArgument, open("a", bounded_edge("|u1", 1, ~std::uint64_t{0})));
  EXPECT_CODE(kResourceExhausted, open("a", static_edge(bytes_spec({1 << 30}))));
  ReceiverOptions lane;
  lane.lane = lanes();
  EXPECT_CODE(kInvalidArgument, open("a", lane));
  auto first = TensorReceiver::open(far_, "a", ReceiverOptions());
  ASSERT_OK(first);
  EXPECT_CODE(kAlreadyExists, open("a", ReceiverOptions()));
  ASSERT_OK(first->close(kHang));
  EXPECT_OK(TensorReceiver::open(far_, "a", ReceiverOptions()));
}

TEST_P(Tensors, ForcedLoweringsThatTheFabricLacksSayWhy) {
  ReceiverOptions options = static_edge(bytes_spec({8}));
  options.lowering = NotificationLowering::kTailFlag;
  const Status refused = TensorReceiver::open(far_, "tail", options).status();
  EXPECT_CODE(kUnsupported, refused);
  EXPECT_NE(refused.message().find("becomes visible last"), std::string::npos) << refused.message();
  options.lowering = NotificationLowering::kFlushAndMessage;
  EXPECT_CODE(kUnsupported, TensorReceiver::open(far_, "flush", options).status());
  options.lowering = NotificationLowering::kImmediate;
  EXPECT_OK(TensorReceiver::open(far_, "immediate", options));
}

TEST_P(Tensors, ASenderWaitsForItsReceiverAndForNoOther) {
  EXPECT_CODE(
      kDeadlineExceeded,
      TensorSender::open(near_device_, near_, "late", std::chrono::milliseconds(50)).status());
  auto sender = std::async(std::launch::async,
                           [&] { return TensorSender::open(near_device_, near_, "late", kHang); });
  auto other = TensorReceiver::open(far_, "other", ReceiverOptions());
  ASSERT_OK(other);
  auto receiver = TensorReceiver::open(far_, "late", static_edge(bytes_spec({9}), 700));
  ASSERT_OK(receiver);
  auto opened = sender.get();
  ASSERT_OK(opened);
  EXPECT_EQ(opened->stats().grants, 700U) << "announced in several records";
  EXPECT_CODE(
      kAlreadyExists,
      TensorSender::open(near_device_, near_, "late", std::chrono::milliseconds(50)).status());
}

TEST_P(Tensors, ASenderThatMeetsAClosingReceiverWaitsForTheNext) {
  for (int round = 0; round < 10; ++round) {
    const std::string name = "edge " + std::to_string(round);
    auto sender = std::async(std::launch::async,
                             [&] { return TensorSender::open(near_device_, near_, name, kHang); });
    auto first = TensorReceiver::open(far_, name, static_edge(bytes_spec({8})));
    ASSERT_OK(first);
    ASSERT_OK(first->close(kHang));
    auto next = TensorReceiver::open(far_, name, static_edge(bytes_spec({8})));
    ASSERT_OK(next);
    ASSERT_OK(sender.get());
  }
}

// On shm alone, where the pages that nothing touches cost nothing.
TEST(LargeTensors, MoreThanFourGigabytesAreOneTensor) {
  constexpr std::uint64_t kBytes = (std::uint64_t{4} << 30) + 4099;
  DeviceOptions options;
  options.huge_pages = HugePages::kOff;
  options.prefault = false;
  auto near_device = Device::open(options);
  auto far_device = Device::open(options);
  ASSERT_OK(near_device);
  ASSERT_OK(far_device);
  auto accepted = std::async(std::launch::async, [&] { return far_device->accept(kHang); });
  auto near = near_device->connect(far_device->endpoint(), kHang);
  auto far = accepted.get();
  ASSERT_OK(near);
  ASSERT_OK(far);
  auto region = near_device->allocate(kBytes);
  ASSERT_OK(region);
  region->data()[0] = std::byte{1};
  region->data()[kBytes - 1] = std::byte{2};

  auto receiver = TensorReceiver::open(*far, "large", ReceiverOptions());
  ASSERT_OK(receiver);
  auto sender = TensorSender::open(*near_device, *near, "large", kHang);
  ASSERT_OK(sender);
  const TensorSpec spec = bytes_spec({kBytes});
  const Completion sent = sender->send(spec, {region->data(), kBytes});
  auto tensor = receiver->receive(kHang);
  ASSERT_OK(tensor);
  ASSERT_EQ(tensor->size(), kBytes);
  EXPECT_TRUE(tensor->spec() == spec);
  EXPECT_EQ(tensor->data()[0], std::byte{1});
  EXPECT_EQ(tensor->data()[kBytes - 1], std::byte{2});
  *tensor = ReceivedTensor();
  EXPECT_OK(sent.wait(kHang));
}

FARWRITE_EVERY_FABRIC(Tensors);
FARWRITE_ENCRYPTED_TOO(Tensors);

}  // namespace
}  // namespace farwrite
