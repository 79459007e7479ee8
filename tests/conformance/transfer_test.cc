// Bytes arrive as they were, whatever their number, place and company.
#include <cstring>
#include <thread>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

using Transfers = ConformancePair;

constexpr std::uint64_t kLargest = (5 << 20) + 13;

// Around every size at which a fabric may change its way.
const std::vector<std::uint64_t>& sizes() {
  static const std::vector<std::uint64_t> all = {0,         1,
                                                 7,         8,
                                                 9,         63,
                                                 64,        65,
                                                 4095,      4096,
                                                 4097,      65535,
                                                 65537,     (256 << 10) - 1,
                                                 256 << 10, (256 << 10) + 1,
                                                 kLargest};
  return all;
}

TEST_P(Transfers, WritesOfEverySizeLand) {
  land(kLargest);
  for (const std::uint64_t size : sizes()) {
    SCOPED_TRACE(size);
    const auto seed = static_cast<std::uint32_t>(size % 1009);
    const std::vector<std::byte> source = make_bytes(size, seed);
    std::memset(landing_.data(), 0, landing_.size());
    ASSERT_OK(near_.write_with_notify({source.data(), size}, target_, 0, seed).wait(kHang));
    ASSERT_OK(far_.wait_notification(kHang));
    ASSERT_TRUE(holds(landing_.data(), size, seed));
    if (size < kLargest) {
      ASSERT_EQ(landing_.data()[size], std::byte{0}) << "one byte too many";
    }
  }
}

TEST_P(Transfers, ReadsOfEverySizeFillTheirDestination) {
  show(make_bytes(kLargest, 4));
  for (const std::uint64_t size : sizes()) {
    SCOPED_TRACE(size);
    std::vector<std::byte> destination(size + 1);
    ASSERT_OK(near_.read({destination.data(), size}, source_).wait(kHang));
    ASSERT_TRUE(holds(destination.data(), size, 4));
    ASSERT_EQ(destination[size], std::byte{0}) << "one byte too many";
  }
}

TEST_P(Transfers, OffsetsAndOddAddressesWork) {
  constexpr std::uint64_t kBytes = 70'000;
  land(kBytes);
  show(make_bytes(kBytes, 9));
  const std::vector<std::byte> source = make_bytes(kBytes, 8);
  for (const std::uint64_t offset : {1U, 3U, 63U, 4095U, 30'001U}) {
    SCOPED_TRACE(offset);
    const std::uint64_t size = 33'331;
    std::memset(landing_.data(), 0, kBytes);
    ASSERT_OK(near_.write({source.data() + 5, size}, target_, offset).wait(kHang));
    ASSERT_OK(near_.flush().wait(kHang));
    ASSERT_EQ(std::memcmp(landing_.data() + offset, source.data() + 5, size), 0);
    ASSERT_EQ(landing_.data()[offset - 1], std::byte{0});
    ASSERT_EQ(landing_.data()[offset + size], std::byte{0});
    std::vector<std::byte> destination(size + 3);
    ASSERT_OK(near_.read({destination.data() + 3, size}, source_, offset).wait(kHang));
    ASSERT_EQ(std::memcmp(destination.data() + 3, shown_.data() + offset, size), 0);
  }
}

TEST_P(Transfers, AnAliasIsThePeersOwnMemory) {
  show(make_bytes(kLargest, 2));
  auto alias = near_.alias(source_, 100, kLargest - 100);
  if (alias.status().code() == StatusCode::kUnsupported) return;  // the contract allows it
  ASSERT_OK(alias);
  ASSERT_EQ(alias->size(), kLargest - 100);
  const std::vector<std::byte> expected = make_bytes(kLargest, 2);
  EXPECT_EQ(std::memcmp(alias->data(), expected.data() + 100, alias->size()), 0);
  shown_.data()[100] = std::byte{0};
  EXPECT_EQ(alias->data()[0], std::byte{0}) << "a copy, not an alias";
  shown_.data()[100] = expected[100];
  EXPECT_EQ(near_.stats().aliases, 1U);
  EXPECT_EQ(near_.stats().copies, 0U);

  // It may outlive the region's handles, the channel and the device it came from.
  source_ = RemoteRegion();
  shown_ = MemoryRegion();
  EXPECT_OK(near_.close(kHang));
  (void)far_device_.close(std::chrono::milliseconds(10));
  EXPECT_EQ(std::memcmp(alias->data(), expected.data() + 100, alias->size()), 0);
}

TEST_P(Transfers, MemcpyReturnsWhenTheBytesAreThere) {
  land(100'000);
  show(make_bytes(100'000, 6));
  std::vector<std::byte> local = make_bytes(50'000, 7);
  ASSERT_OK(near_.memcpy(local.data(), target_, 1000, local.size(), Direction::kToRemote, kHang));
  EXPECT_TRUE(holds(landing_.data() + 1000, local.size(), 7));
  ASSERT_OK(near_.memcpy(local.data(), source_, 1000, local.size(), Direction::kFromRemote, kHang));
  EXPECT_EQ(std::memcmp(local.data(), shown_.data() + 1000, local.size()), 0);
  EXPECT_FALSE(near_.memcpy(local.data(), target_, 0, 8, Direction::kFromRemote, kHang).ok());
}

TEST_P(Transfers, ManyThreadsInBothDirections) {
  constexpr std::uint32_t kThreads = 4, kRounds = 50;
  constexpr std::uint64_t kSlot = 20'000;
  struct End {
    Channel* writer = nullptr;
    MemoryRegion landing;
    RemoteRegion target;
  };
  std::vector<End> ends(2);
  for (int i = 0; i < 2; ++i) {
    Channel& owner = i == 0 ? far_ : near_;
    ends[i].writer = i == 0 ? &near_ : &far_;
    auto landing = owner.allocate(kThreads * kSlot);
    ASSERT_OK(landing);
    ends[i].landing = *std::move(landing);
    auto target = ends[i].writer->open(ends[i].landing.descriptor(), kHang);
    ASSERT_OK(target);
    ends[i].target = *std::move(target);
  }
  std::vector<std::thread> threads;
  for (End& end : ends) {
    for (std::uint32_t t = 0; t < kThreads; ++t) {
      threads.emplace_back([&end, t, this] {
        for (std::uint32_t round = 0; round < kRounds; ++round) {
          const std::uint64_t size = 1 + (round * 7919 + t * 31) % kSlot;
          const std::vector<std::byte> source = make_bytes(size, round + t * 100);
          ASSERT_OK(end.writer->write({source.data(), size}, end.target, t * kSlot, t % lanes())
                        .wait(kHang));
          ASSERT_OK(end.writer->flush().wait(kHang));
          ASSERT_TRUE(holds(end.landing.data() + t * kSlot, size, round + t * 100))
              << "thread " << t << " round " << round;
        }
      });
    }
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Transfers, CountersSayWhatMoved) {
  land(1000);
  show(make_bytes(1000, 1));
  std::vector<std::byte> local(1000);
  ASSERT_OK(near_.write({local.data(), 1000}, target_).wait(kHang));
  ASSERT_OK(near_.write_with_notify({local.data(), 10}, target_, 0, 1).wait(kHang));
  ASSERT_OK(near_.read({local.data(), 300}, source_).wait(kHang));
  const ChannelStats stats = near_.stats();
  EXPECT_EQ(stats.writes, 2U);
  EXPECT_EQ(stats.bytes_written, 1010U);
  EXPECT_EQ(stats.reads, 1U);
  EXPECT_EQ(stats.bytes_read, 300U);
  EXPECT_EQ(stats.notifications_sent, 1U);
  EXPECT_EQ(far_.stats().writes, 0U);
}

using ManyPeers = Conformance;

TEST_P(ManyPeers, SevenDevicesAllToAll) {
  constexpr std::uint32_t kDevices = 7;  // over shm with 4 lanes, most of 1,024 descriptors
  constexpr std::uint64_t kBytes = 10'000;
  std::vector<Device> devices;
  for (std::uint32_t i = 0; i < kDevices; ++i) devices.push_back(open());
  struct Route {
    Channel channel;
    MemoryRegion landing;  // here, for the peer
    std::uint32_t from = 0, to = 0;
  };
  std::vector<Route> routes;
  for (std::uint32_t i = 0; i < kDevices; ++i) {
    for (std::uint32_t j = i + 1; j < kDevices; ++j) {
      ChannelPair pair = connect(devices[i], devices[j]);
      ASSERT_TRUE(pair.near.valid() && pair.far.valid());
      routes.push_back({pair.near, {}, i, j});
      routes.push_back({pair.far, {}, j, i});
    }
  }
  for (Route& route : routes) {
    auto landing = route.channel.allocate(kBytes);
    ASSERT_OK(landing);
    route.landing = *std::move(landing);
    ASSERT_OK(route.channel.publish("in", route.landing));
  }
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kDevices; ++i) {
    threads.emplace_back([&, i] {
      for (Route& route : routes) {
        if (route.from != i) continue;
        auto target = route.channel.lookup("in", kHang);
        ASSERT_OK(target);
        const std::uint32_t seed = route.from * kDevices + route.to;
        const std::vector<std::byte> bytes = make_bytes(kBytes, seed);
        ASSERT_OK(
            route.channel.write_with_notify({bytes.data(), kBytes}, *target, 0, seed).wait(kHang));
      }
      for (Route& route : routes) {
        if (route.from != i) continue;
        auto notification = route.channel.wait_notification(kHang);
        ASSERT_OK(notification);
        const std::uint32_t seed = route.to * kDevices + route.from;
        ASSERT_EQ(notification->tag, seed);
        ASSERT_TRUE(holds(route.landing.data(), kBytes, seed));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (Device& device : devices) EXPECT_EQ(device.stats().channels_open, kDevices - 1);
}

TEST_P(Transfers, AHeadAndItsSourceLandAsOneNotifiedWrite) {
  constexpr std::uint64_t kOffset = 7;
  land(kOffset + kMaxHeadBytes + kLargest);
  for (const std::uint64_t head_bytes :
       {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{63}, std::uint64_t{256}, kMaxHeadBytes}) {
    for (const std::uint64_t size : sizes()) {
      SCOPED_TRACE(std::to_string(head_bytes) + " + " + std::to_string(size));
      std::vector<std::byte> head = make_bytes(head_bytes, 6);
      const std::vector<std::byte> source = make_bytes(size, 7);
      std::memset(landing_.data(), 0, kOffset + head_bytes + std::min<std::uint64_t>(size, 100));
      const Completion written = near_.write_with_notify(
          {head.data(), head_bytes}, {source.data(), size}, target_, kOffset, 11, lanes() - 1);
      std::fill(head.begin(), head.end(), std::byte{0});  // the caller's again
      auto taken = far_.wait_notification(kHang);
      ASSERT_OK(taken);
      EXPECT_EQ(taken->tag, 11U);
      ASSERT_TRUE(holds(landing_.data() + kOffset, head_bytes, 6));
      ASSERT_TRUE(holds(landing_.data() + kOffset + head_bytes, size, 7));
      ASSERT_EQ(landing_.data()[kOffset - 1], std::byte{0});
      ASSERT_OK(wait_until_settled(written));
    }
  }
}

TEST_P(Transfers, AHeadThatIsTooLongOrLeavesTheRegionIsRefused) {
  land(1000);
  const std::vector<std::byte> bytes(1000);
  const auto write = [&](std::uint64_t head, std::uint64_t source, std::uint64_t offset) {
    return near_.write_with_notify({bytes.data(), head}, {bytes.data(), source}, target_, offset, 1)
        .wait(kHang);
  };
  EXPECT_CODE(kInvalidArgument, write(kMaxHeadBytes + 1, 1, 0));
  EXPECT_CODE(kOutOfRange, write(500, 501, 0));
  EXPECT_CODE(kOutOfRange, write(1, 0, 1000));
  EXPECT_OK(write(500, 500, 0));
}

FARWRITE_EVERY_FABRIC(Transfers);
FARWRITE_ENCRYPTED_TOO(Transfers);
FARWRITE_EVERY_FABRIC(ManyPeers);

}  // namespace
}  // namespace farwrite
