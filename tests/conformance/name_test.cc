// Names and limits: finding memory, and what happens when there is none.
#include <future>
#include <string>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

using Names = ConformancePair;

TEST_P(Names, WhatTheDevicePublishesEveryPeerFinds) {
  Device third = open();
  ChannelPair other = connect(third, far_device_);
  auto region = far_device_.allocate(100);
  ASSERT_OK(region);
  ASSERT_OK(far_device_.publish("weights", *region));
  for (Channel* channel : {&near_, &other.near}) {
    auto remote = channel->lookup("weights", kHang);
    ASSERT_OK(remote);
    EXPECT_EQ(remote->size(), 100U);
    EXPECT_EQ(remote->access(), Access::kRead);
  }
}

TEST_P(Names, WhatAChannelPublishesOnlyItsPeerFinds) {
  Device third = open();
  ChannelPair other = connect(third, far_device_);
  auto ours = far_.allocate(100), theirs = other.far.allocate(200);
  ASSERT_OK(ours);
  ASSERT_OK(theirs);
  ASSERT_OK(far_.publish("mailbox", *ours));
  ASSERT_OK(other.far.publish("mailbox", *theirs));
  auto found = near_.lookup("mailbox", kHang);
  ASSERT_OK(found);
  EXPECT_EQ(found->size(), 100U);
  found = other.near.lookup("mailbox", kHang);
  ASSERT_OK(found);
  EXPECT_EQ(found->size(), 200U);
  ASSERT_OK(far_.publish("private", *ours));
  EXPECT_FALSE(other.near.lookup("private", std::chrono::milliseconds(50)).ok());
}

TEST_P(Names, ALookupWaitsForThePublication) {
  auto region = far_device_.allocate(100), landing = far_.allocate(200);
  ASSERT_OK(region);
  ASSERT_OK(landing);
  auto first = std::async(std::launch::async, [&] { return near_.lookup("later", kHang); });
  auto second = std::async(std::launch::async, [&] { return near_.lookup("mine", kHang); });
  EXPECT_EQ(first.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  ASSERT_OK(far_device_.publish("later", *region));
  ASSERT_OK(far_.publish("mine", *landing));
  auto later = first.get(), mine = second.get();
  ASSERT_OK(later);
  ASSERT_OK(mine);
  EXPECT_EQ(later->size(), 100U);
  EXPECT_EQ(mine->size(), 200U);
}

TEST_P(Names, ALookupOfNothingEndsAndNamesTheName) {
  Status missing;
  // A peer that is late to refuse it is what the error is about.
  EXPECT_TRUE(eventually([&] {
    missing = near_.lookup("no-such-name", std::chrono::milliseconds(50)).status();
    EXPECT_FALSE(missing.ok());
    return missing.message().find("no-such-name") != std::string::npos;
  })) << missing.to_string();
}

TEST_P(Names, WhatNoPeerWouldTakeIsRefusedHereAndTheChannelGoesOn) {
  const std::string long_name(kMaxNameBytes + 1, 'n');
  for (const std::string& name : {long_name, std::string()}) {
    const Status refused = near_.lookup(name, kHang).status();
    EXPECT_CODE(kInvalidArgument, refused);
    EXPECT_NE(refused.message().find("255"), std::string::npos) << refused.to_string();
  }
  auto region = far_device_.allocate(100);
  ASSERT_OK(region);
#if defined(FARWRITE_LIBRARY)
  RegionDescriptor impossible = region->descriptor();
  impossible.offset = ~std::uint64_t{0};
  EXPECT_CODE(kInvalidArgument, near_.open(impossible, kHang).status());
  impossible = region->descriptor();
  impossible.keys.resize(100);
  EXPECT_CODE(kInvalidArgument, near_.open(impossible, kHang).status());
#else
  const std::vector<std::byte> many(RegionDescriptor::kMaxBytes + 1);
  EXPECT_CODE(kInvalidArgument, near_.open(RegionDescriptor(), kHang).status());
  EXPECT_CODE(kProtocolError, RegionDescriptor::from_bytes({many.data(), many.size()}).status());
#endif

  const std::string longest(kMaxNameBytes, 'n');
  ASSERT_OK(far_device_.publish(longest, *region));
  ASSERT_OK(near_.lookup(longest, kHang));
  ASSERT_OK(near_.open(region->descriptor(), kHang));
  EXPECT_EQ(far_.peer_state(), PeerState::kAlive);
}

TEST_P(Names, ANameIsReplacedAndTakenBack) {
  auto first = far_device_.allocate(100), second = far_device_.allocate(200);
  ASSERT_OK(first);
  ASSERT_OK(second);
  ASSERT_OK(far_device_.publish("x", *first));
  auto found = near_.lookup("x", kHang);
  ASSERT_OK(found);
  EXPECT_EQ(found->size(), 100U);
  ASSERT_OK(far_device_.publish("x", *second));
  found = near_.lookup("x", kHang);
  ASSERT_OK(found);
  EXPECT_EQ(found->size(), 200U);
  ASSERT_OK(far_device_.unpublish("x"));
  EXPECT_FALSE(near_.lookup("x", std::chrono::milliseconds(50)).ok());
}

TEST_P(Names, LandingMemoryBelongsToItsChannel) {
  auto landing = far_.allocate(100);
  ASSERT_OK(landing);
  EXPECT_FALSE(far_device_.publish("landing", *landing).ok());
}

TEST_P(Names, BothEndsFindEachOther) {
  auto landing = near_.allocate(64);
  ASSERT_OK(landing);
  ASSERT_OK(near_.publish("back", *landing));
  auto remote = far_.lookup("back", kHang);
  ASSERT_OK(remote);
  const std::vector<std::byte> bytes = make_bytes(64, 3);
  ASSERT_OK(far_.write_with_notify({bytes.data(), 64}, *remote, 0, 1).wait(kHang));
  ASSERT_OK(near_.wait_notification(kHang));
  EXPECT_TRUE(holds(landing->data(), 64, 3));
}

using Limits = Conformance;

TEST_P(Limits, MoreThanTheLimitIsAnErrorThatSaysSo) {
  DeviceOptions small = options();
  small.send_limit = small.send_limit_per_peer = std::uint64_t{4} << 20;
  small.receive_limit = small.receive_limit_per_peer = std::uint64_t{4} << 20;
  Device near_device = open(), far_device = open(small);
  ChannelPair pair = connect(near_device, far_device);
  ASSERT_TRUE(pair.far.valid());
  constexpr std::uint64_t kTooMuch = std::uint64_t{64} << 20;

  const Status sent = far_device.allocate(kTooMuch).status();
  EXPECT_CODE(kResourceExhausted, sent);
  EXPECT_NE(sent.message().find("send_limit"), std::string::npos) << sent.to_string();
  const Status received = pair.far.allocate(kTooMuch).status();
  EXPECT_CODE(kResourceExhausted, received);
  EXPECT_NE(received.message().find("receive_limit"), std::string::npos) << received.to_string();
  EXPECT_FALSE(far_device.allocate(~std::uint64_t{0}).ok());

  // One direction is full, and the other does not notice.
  std::vector<MemoryRegion> all;
  while (true) {
    auto region = pair.far.allocate(256 << 10);
    if (!region.ok()) break;
    all.push_back(*std::move(region));
    ASSERT_LE(all.size(), 16U) << "the limit does not hold";
  }
  EXPECT_FALSE(all.empty());
  EXPECT_OK(far_device.allocate(1 << 20));
  all.clear();
  EXPECT_TRUE(eventually([&] { return pair.far.allocate(256 << 10).ok(); }))
      << "freed memory must come back";
  EXPECT_LE(far_device.stats().receive.reserved, small.receive_limit);
}

TEST_P(Limits, OnePeerCannotUseUpAnothersShare) {
  DeviceOptions shared = options();
  shared.receive_limit = std::uint64_t{16} << 20;
  shared.receive_limit_per_peer = std::uint64_t{4} << 20;
  Device far_device = open(shared), greedy_device = open(), modest_device = open();
  ChannelPair greedy = connect(greedy_device, far_device);
  ChannelPair modest = connect(modest_device, far_device);
  ASSERT_TRUE(greedy.far.valid() && modest.far.valid());
  std::vector<MemoryRegion> all;
  for (int i = 0; i < 64; ++i) {
    auto region = greedy.far.allocate(512 << 10);
    if (!region.ok()) break;
    all.push_back(*std::move(region));
  }
  EXPECT_LE(all.size(), 8U);
  EXPECT_OK(modest.far.allocate(1 << 20));
}

FARWRITE_EVERY_FABRIC(Names);
FARWRITE_EVERY_FABRIC(Limits);

}  // namespace
}  // namespace farwrite
