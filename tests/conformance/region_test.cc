// Who may touch which bytes, and for how long.
#include <atomic>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

using Regions = ConformancePair;

TEST_P(Regions, BytesBesideARegionAreRefused) {
  land(256);
  show(make_bytes(256, 1));
  std::byte buffer[512] = {};
  constexpr std::uint64_t kFar = std::numeric_limits<std::uint64_t>::max();
  struct Range {
    std::uint64_t offset, length;
  };
  for (const Range& range : {Range{0, 257}, Range{256, 1}, Range{255, 2}, Range{257, 0},
                             Range{kFar, 1}, Range{kFar - 255, 256}}) {
    SCOPED_TRACE(std::to_string(range.offset) + " + " + std::to_string(range.length));
    EXPECT_CODE(kOutOfRange,
                near_.write({buffer, range.length}, target_, range.offset).wait(kHang));
    EXPECT_CODE(
        kOutOfRange,
        near_.write_with_notify({buffer, range.length}, target_, range.offset, 1).wait(kHang));
    EXPECT_CODE(kOutOfRange, near_.read({buffer, range.length}, source_, range.offset).wait(kHang));
    EXPECT_CODE(kOutOfRange, near_.alias(source_, range.offset, range.length).status());
  }
  EXPECT_OK(near_.write({buffer, 0}, target_, 256).wait(kHang));
  EXPECT_OK(near_.notify(2).wait(kHang));
  auto notification = far_.wait_notification(kHang);
  ASSERT_OK(notification);
  EXPECT_EQ(notification->tag, 2U) << "a refused write must not notify";
}

TEST_P(Regions, AccessIsWhatTheOwnerGave) {
  land(64);
  show(make_bytes(64, 1));
  EXPECT_EQ(target_.access(), Access::kWrite);
  EXPECT_EQ(source_.access(), Access::kRead);
  std::byte buffer[64] = {};
  EXPECT_CODE(kPermissionDenied, near_.write({buffer, 64}, source_).wait(kHang));
  EXPECT_CODE(kPermissionDenied, near_.read({buffer, 64}, target_).wait(kHang));
  EXPECT_TRUE(holds(shown_.data(), 64, 1));
}

TEST_P(Regions, AreAlignedAndKnownToTheDevice) {
  for (const std::uint64_t size : {1U, 63U, 64U, 4097U, 1'000'000U}) {
    auto landing = far_.allocate(size);
    auto shown = far_device_.allocate(size);
    ASSERT_OK(landing);
    ASSERT_OK(shown);
    EXPECT_EQ(landing->size(), size);
    EXPECT_EQ(shown->size(), size);
    for (std::byte* data : {landing->data(), shown->data()}) {
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(data) % 64, 0U);
    }
    EXPECT_TRUE(far_device_.contains(shown->data()));
    EXPECT_TRUE(far_device_.contains(shown->data() + size - 1));
  }
  EXPECT_FALSE(far_device_.contains(&far_device_));
  EXPECT_FALSE(far_device_.contains(nullptr));
}

TEST_P(Regions, ADescriptorTravelsAsBytes) {
  auto region = far_.allocate(128);
  ASSERT_OK(region);
  const std::vector<std::byte> bytes = region->descriptor().to_bytes();
  auto descriptor = RegionDescriptor::from_bytes({bytes.data(), bytes.size()});
  ASSERT_OK(descriptor);
  auto remote = near_.open(*descriptor, kHang);
  ASSERT_OK(remote);
  EXPECT_EQ(remote->size(), 128U);
  const std::vector<std::byte> source = make_bytes(128, 5);
  ASSERT_OK(near_.write({source.data(), 128}, *remote).wait(kHang));
  ASSERT_OK(near_.flush().wait(kHang));
  EXPECT_TRUE(holds(region->data(), 128, 5));
}

TEST_P(Regions, ADescriptorOfAnEarlierStartIsNeverHonoured) {
  DeviceOptions same_port = options();
  Device old_device = open(same_port);
  same_port.listen.port = old_device.endpoint().port;
  ChannelPair old_pair = connect(near_device_, old_device);
  ASSERT_TRUE(old_pair.far.valid());
  auto landing = old_pair.far.allocate(64);
  auto shown = old_device.allocate(64);
  ASSERT_OK(landing);
  ASSERT_OK(shown);
  const std::vector<RegionDescriptor> stale = {landing->descriptor(), shown->descriptor()};
  const DeviceUuid uuid = old_device.uuid();
  const std::uint64_t epoch = old_device.epoch();
  landing = MemoryRegion();
  shown = MemoryRegion();
  ASSERT_OK(old_pair.near.close());
  ASSERT_OK(old_device.close());
  old_pair = {};
  old_device = Device();

  Device restarted = open(same_port);
  ASSERT_TRUE(restarted.valid());
  EXPECT_EQ(restarted.uuid(), uuid);
  EXPECT_NE(restarted.epoch(), epoch);
  ChannelPair pair = connect(near_device_, restarted);
  ASSERT_TRUE(pair.near.valid());
  auto fresh = pair.far.allocate(64);  // memory that a stale key could hit
  ASSERT_OK(fresh);
  for (const RegionDescriptor& descriptor : stale) {
    EXPECT_CODE(kPeerRestarted, pair.near.open(descriptor, kHang).status());
  }
}

TEST_P(Regions, ADescriptorOfAnotherDeviceOrChannelIsRefused) {
  Device third = open();
  ChannelPair other = connect(third, far_device_);
  ASSERT_TRUE(other.near.valid());
  auto foreign = third.allocate(64);
  ASSERT_OK(foreign);
  EXPECT_FALSE(near_.open(foreign->descriptor(), kHang).ok()) << "not the peer's";
  auto landing = other.far.allocate(64);
  ASSERT_OK(landing);
  EXPECT_FALSE(near_.open(landing->descriptor(), kHang).ok()) << "granted to another peer";
  EXPECT_OK(other.near.open(landing->descriptor(), kHang));
}

// With other bits in the byte at `place` (docs/reference/protocol.md).
RegionDescriptor forge(const RegionDescriptor& honest, std::size_t place, unsigned bits) {
  std::vector<std::byte> bytes = honest.to_bytes();
  bytes.at(place) ^= std::byte(bits);
  Result<RegionDescriptor> forged = RegionDescriptor::from_bytes({bytes.data(), bytes.size()});
  EXPECT_OK(forged);
  return *std::move(forged);
}

TEST_P(Regions, ADescriptorThatWasTamperedWithGivesNoMoreThanTheRegion) {
  auto shown = far_device_.allocate(64);
  auto landing = far_.allocate(64);
  ASSERT_OK(shown);
  ASSERT_OK(landing);
  for (const MemoryRegion& region : {*shown, *landing}) {
    const RegionDescriptor honest = region.descriptor();
    const std::vector<RegionDescriptor> forged = {
        forge(honest, 33, 4),    // another region's number
        forge(honest, 48, 128),  // longer
        forge(honest, 40, 64),   // further on in the segment
        forge(honest, 4, 3),     // the other access
        forge(honest, 69, 4),    // another key of the fabric
        forge(honest, 8, 1),     // another device
    };
    for (std::size_t i = 0; i < forged.size(); ++i) {
      auto remote = near_.open(forged[i], kHang);
      if (!remote.ok()) continue;  // refusing is right; so is opening what really is there
      EXPECT_EQ(remote->size(), 64U) << "forgery " << i;
      EXPECT_EQ(remote->access(), region.access()) << "forgery " << i;
      EXPECT_NE(i, 5U) << "another device's uuid";
      EXPECT_NE(i, 0U) << "an unknown region";
    }
  }
  EXPECT_OK(near_.open(shown->descriptor(), kHang));
}

TEST_P(Regions, NoByteLandsAfterALandingRegionWasClosed) {
  land(64 << 10);
  const std::vector<std::byte> ones = make_bytes(64 << 10, 1), twos = make_bytes(64 << 10, 2);
  std::atomic<bool> stop{false};
  std::atomic<int> rounds{0}, refusals{0};
  std::thread writer([&] {
    // Goes on for a while after the refusal: that is when a late byte would come.
    for (; !stop; ++rounds) {
      const auto& bytes = rounds % 2 == 0 ? ones : twos;
      const Status written = wait_until_settled(near_.write({bytes.data(), bytes.size()}, target_));
      const Status flushed = near_.flush().wait(kHang);
      if (!written.ok() || !flushed.ok()) ++refusals;
    }
  });
  EXPECT_TRUE(eventually([&] { return rounds > 5; }));
  EXPECT_OK(landing_.close(kHang));
  const std::vector<std::byte> before(landing_.data(), landing_.data() + landing_.size());
  EXPECT_TRUE(eventually([&] { return refusals > 20; })) << "the writer must hear of it";
  stop = true;
  writer.join();
  EXPECT_EQ(std::memcmp(before.data(), landing_.data(), before.size()), 0);
  EXPECT_EQ(near_.peer_state(), PeerState::kAlive);
}

TEST_P(Regions, ClosingTwiceIsOkAndOpensNothingAfterwards) {
  land(64);
  show(make_bytes(64, 1));
  for (MemoryRegion* region : {&landing_, &shown_}) {
    const RegionDescriptor descriptor = region->descriptor();
    EXPECT_OK(region->close(kHang));
    EXPECT_OK(region->close(kHang));
    EXPECT_FALSE(near_.open(descriptor, kHang).ok());
  }
}

TEST_P(Regions, ALeaseKeepsTheMemoryFromBeingReused) {
  constexpr std::size_t kBytes = 300'000;
  show(make_bytes(kBytes, 1));
  EXPECT_EQ(far_.stats().leases_granted, 1U);
  EXPECT_EQ(near_.stats().leases_held, 1U);
  EXPECT_OK(shown_.close(kHang));
  shown_ = MemoryRegion();
  std::vector<MemoryRegion> others;
  for (int i = 0; i < 20; ++i) {
    auto other = far_device_.allocate(kBytes);
    ASSERT_OK(other);
    std::memset(other->data(), 0xff, kBytes);
    others.push_back(*std::move(other));
  }
  std::vector<std::byte> seen(kBytes);
  const Status read = near_.read({seen.data(), kBytes}, source_).wait(kHang);
  EXPECT_OK(read);
  EXPECT_TRUE(holds(seen.data(), kBytes, 1));
  source_ = RemoteRegion();
  EXPECT_TRUE(eventually([&] { return far_.stats().leases_released == 1; }));
  EXPECT_EQ(near_.stats().leases_held, 0U);
}

TEST_P(Regions, MemoryComesBackWhenTheLastLeaseIsGone) {
  // Each region is most of the limit: the second fits only once the first is free again.
  const std::uint64_t most = options().send_limit / 4 * 3;
  for (int i = 0; i < 3; ++i) {
    Result<MemoryRegion> region = Status(StatusCode::kInternal, "not tried");
    ASSERT_TRUE(eventually([&] { return (region = far_device_.allocate(most)).ok(); }))
        << region.status().to_string();
    auto remote = near_.open(region->descriptor(), kHang);
    ASSERT_OK(remote);
    region = MemoryRegion();
    EXPECT_CODE(kResourceExhausted, far_device_.allocate(most).status());
  }
}

TEST_P(Regions, RawMemoryIsCountedAlignedAndScalesOverThreads) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 2000; ++i) {
        std::byte* const memory = near_device_.allocate_raw(1000 + i);
        ASSERT_NE(memory, nullptr);
        ASSERT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
        ASSERT_TRUE(near_device_.contains(memory));
        near_device_.free_raw(memory);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(near_device_.stats().send.used, 0U);
  EXPECT_EQ(near_device_.allocate_raw(options().send_limit + 1), nullptr);
  near_device_.free_raw(nullptr);
}

FARWRITE_EVERY_FABRIC(Regions);
FARWRITE_ENCRYPTED_TOO(Regions);

}  // namespace
}  // namespace farwrite
