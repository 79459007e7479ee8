// Who may write which landing region, and when its memory may be reused.
#include "fabric/shm/grant_table.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

namespace farwrite::fabric::shm {
namespace {

constexpr std::string_view kPeer = "127.0.0.1:7777";

const core::Deadline kNow = core::Deadline::after({});

std::shared_ptr<memory::Segment> granted_segment() {
  memory::SegmentOptions options;
  options.bytes = 4096;
  options.use = memory::SegmentUse::kLanding;
  options.huge_pages = memory::HugePages::kOff;
  return memory::Segment::create(options).value();
}

class Grants : public testing::Test {
 protected:
  static constexpr MailboxGeometry kGeometry{.lanes = 1, .cells = 16, .rows = 3};

  std::uint64_t grant(std::uint64_t region) {
    const std::uint64_t key = table_.grant(segment_, whole_, region, kPeer).value();
    regions_[key] = region;
    return key;
  }
  Status revoke(std::uint64_t key, core::Deadline deadline = kNow) {
    return table_.revoke(key, regions_.at(key), deadline, kPeer);
  }
  GrantRow& row(std::uint64_t key) { return mailbox_.view.row(GrantKey::unpack(key).row); }

  const OwnMailbox mailbox_ = OwnMailbox::create(kGeometry).value();
  const std::shared_ptr<memory::Segment> segment_ = granted_segment();
  const ByteView whole_{segment_->base(), segment_->bytes()};
  GrantTable table_{mailbox_.view};
  std::map<std::uint64_t, std::uint64_t> regions_;  // by key
};

TEST_F(Grants, LetThePeerWriteAnOpenRegionOnly) {
  const std::uint64_t key = grant(42);
  EXPECT_TRUE(InflightWrite(row(key), 42).open());
  EXPECT_FALSE(InflightWrite(row(key), 41).open()) << "a stale descriptor";
  ASSERT_TRUE(revoke(key).ok());
  EXPECT_FALSE(InflightWrite(row(key), 42).open());
}

TEST_F(Grants, NameTheSegmentInTheKey) {
  EXPECT_EQ(GrantKey::unpack(grant(1)).segment_id, segment_->id());
  const GrantKey key{0x89abcdef, 0x01234567};
  EXPECT_EQ(GrantKey::unpack(key.pack()).segment_id, key.segment_id);
  EXPECT_EQ(GrantKey::unpack(key.pack()).row, key.row);
}

TEST_F(Grants, RevokeOnlyAfterTheWriteUnderWay) {
  const std::uint64_t key = grant(42);
  std::optional<InflightWrite> write(std::in_place, row(key), 42);
  ASSERT_TRUE(write->open());
  std::atomic<bool> write_over{false};
  auto revoked = std::async(std::launch::async, [&] {
    const Status status = revoke(key, core::Deadline::never());
    return status.ok() && write_over.load();
  });
  while (row(key).open_region.load() != 0) std::this_thread::yield();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // room for returning too early
  write_over.store(true);
  write.reset();
  EXPECT_TRUE(revoked.get());
}

TEST_F(Grants, CallAPeerSilentThatDoesNotEndItsWrite) {
  const std::uint64_t key = grant(42);
  std::optional<InflightWrite> write(std::in_place, row(key), 42);
  const Status status = revoke(key);
  EXPECT_EQ(status.code(), StatusCode::kPeerSilent);
  EXPECT_NE(status.message().find(kPeer), std::string::npos) << status.message();
  EXPECT_FALSE(InflightWrite(row(key), 42).open()) << "no new write begins meanwhile";
  write.reset();
  EXPECT_TRUE(revoke(key).ok()) << "it came back";
}

TEST_F(Grants, ReuseARowOnlyOnceItHasSettled) {
  const std::uint64_t key = grant(1);
  grant(2);
  grant(3);
  std::optional<InflightWrite> write(std::in_place, row(key), 1);
  ASSERT_EQ(revoke(key).code(), StatusCode::kPeerSilent);
  EXPECT_EQ(table_.grant(segment_, whole_, 4, kPeer).status().code(),
            StatusCode::kResourceExhausted);
  write.reset();
  ASSERT_TRUE(revoke(key).ok());
  const std::uint64_t next = grant(4);
  EXPECT_TRUE(InflightWrite(row(next), 4).open());
  EXPECT_FALSE(InflightWrite(row(next), 1).open()) << "the old descriptor stays closed";
}

TEST_F(Grants, SayHowManyThereAreWhenTheyRunOut) {
  for (std::uint64_t region = 1; region <= kGeometry.rows; ++region) grant(region);
  const Status status = table_.grant(segment_, whole_, 9, kPeer).status();
  EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
  EXPECT_NE(status.message().find("3"), std::string::npos) << status.message();
}

TEST_F(Grants, SettleAllAtTheDeathOfThePeer) {
  const std::uint64_t key = grant(42);
  row(key).inflight.fetch_add(1);  // died in the middle of a write
  ASSERT_EQ(revoke(key).code(), StatusCode::kPeerSilent);
  table_.peer_died();
  EXPECT_TRUE(revoke(key).ok());
}

TEST_F(Grants, EndAWaitingRevokeAtTheDeathOfThePeer) {
  const std::uint64_t key = grant(42);
  row(key).inflight.fetch_add(1);
  auto revoked =
      std::async(std::launch::async, [&] { return revoke(key, core::Deadline::never()).ok(); });
  while (row(key).open_region.load() != 0) std::this_thread::yield();
  table_.peer_died();
  EXPECT_TRUE(revoked.get());
}

TEST_F(Grants, TakeAKeyTheyDoNotKnowForRevoked) {
  EXPECT_TRUE(table_.revoke(GrantKey{1, 2}.pack(), 42, kNow, kPeer).ok());
  const std::uint64_t key = grant(42);
  EXPECT_TRUE(revoke(key).ok());
  EXPECT_TRUE(revoke(key).ok());
}

TEST_F(Grants, KeepARegionWhoseKeyAnEarlierOneHad) {
  const std::uint64_t key = grant(1);
  ASSERT_TRUE(revoke(key).ok());
  ASSERT_EQ(grant(2), key);
  EXPECT_TRUE(table_.revoke(key, 1, kNow, kPeer).ok()) << "nothing lands in region 1";
  EXPECT_TRUE(InflightWrite(row(key), 2).open());
  EXPECT_NE(grant(3), key) << "the row of region 2 was given away";
}

TEST_F(Grants, HandOutOnlySegmentsWithGrantedRegions) {
  const std::shared_ptr<memory::Segment> other = granted_segment();
  EXPECT_EQ(table_.find_segment(segment_->id()), nullptr);
  grant(42);
  EXPECT_EQ(table_.find_segment(segment_->id()), segment_);
  EXPECT_EQ(table_.find_segment(other->id()), nullptr);
}

TEST_F(Grants, BelieveNothingThePeerWritesIntoTheRows) {
  const std::uint64_t key = grant(42);
  row(key).open_region.store(1234);  // the peer scribbles over its row
  EXPECT_TRUE(revoke(key).ok());
  EXPECT_EQ(row(key).open_region.load(), 0U);
  EXPECT_EQ(GrantKey::unpack(grant(43)).row, GrantKey::unpack(key).row);
}

TEST_F(Grants, FindTheBytesOfAHint) {
  const std::uint32_t row = GrantKey::unpack(grant(1)).row;
  const auto bytes = static_cast<std::uint32_t>(whole_.size);
  for (const LandingHint& hint : {LandingHint{row, 64, 0}, LandingHint{row, bytes, 0},
                                  LandingHint{row, 1, whole_.size - 1}, LandingHint{row, 0, 0}}) {
    EXPECT_EQ(table_.hinted(hint).data, whole_.data + hint.offset);
    EXPECT_EQ(table_.hinted(hint).size, hint.bytes);
  }
}

TEST_F(Grants, IgnoreAHintThatLeavesItsRegion) {
  const std::uint32_t row = GrantKey::unpack(grant(1)).row;
  for (const LandingHint& hint :
       {LandingHint{row, 1, whole_.size}, LandingHint{row, 64, ~0ULL}, LandingHint{row, ~0U, 0},
        LandingHint{row + 1, 64, 0}, LandingHint{~0U, 64, 0}}) {
    EXPECT_EQ(table_.hinted(hint).size, 0U);
  }
}

TEST_F(Grants, LetNoByteLandAfterARevoke) {
  constexpr std::uint64_t kRounds = 2'000;
  std::atomic<std::uint64_t> granted{0};  // the region that the writer aims at
  std::atomic<std::uint64_t> landing{0};
  std::atomic<bool> over{false};
  std::thread writer([&] {
    while (!over.load()) {
      const std::uint64_t region = granted.load();
      const InflightWrite write(mailbox_.view.row(0), region);
      if (region != 0 && write.open()) landing.store(region, std::memory_order_relaxed);
    }
  });
  std::uint64_t late = 0;
  for (std::uint64_t region = 1; region <= kRounds; ++region) {
    const std::uint64_t key = grant(region);
    ASSERT_EQ(GrantKey::unpack(key).row, 0U);
    granted.store(region);
    // Every other round waits for a write, so that some revokes meet one.
    while (region % 2 == 0 && landing.load() != region) std::this_thread::yield();
    ASSERT_TRUE(revoke(key, core::Deadline::never()).ok());
    landing.store(0);
    for (int look = 0; look < 50; ++look) late += landing.load() != 0 ? 1 : 0;
  }
  over.store(true);
  writer.join();
  EXPECT_EQ(late, 0U);
}

}  // namespace
}  // namespace farwrite::fabric::shm
