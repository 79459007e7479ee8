// A segment's description survives its encoding, and nothing impossible comes out of the decoder.
#include "box/snapshot_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

#include "box/crc32c.h"
#include "box/epoch.h"
#include "unit/snapshot_fixture.h"

namespace farwrite::box {
namespace {

using testing::HasSubstr;

SnapshotEntry longest_entry() {
  SnapshotEntry entry = make_segment(std::string(kMaxNameBytes, 'n'), {}, 7).entry;
  entry.spec.type = ElementType::kFloat64;
  entry.spec.dims.assign(kMaxRank, 1);
  entry.spec.dims[0] = 3;
  entry.spec.description.assign(kMaxDescription, 'd');
  entry.spec.buffers = kMaxBuffers;
  entry.spec.temporary = true;
  entry.bytes = 24;
  return entry;
}

TEST(SnapshotEntry, KeepsEveryFieldOnItsWay) {
  const SnapshotEntry entry = longest_entry();
  const auto bytes = entry.to_bytes();
  EXPECT_LE(bytes.size(), kSnapshotRecordLimit);
  auto decoded = SnapshotEntry::from_bytes(view_of(bytes));
  ASSERT_TRUE(decoded.ok()) << decoded.status().to_string();
  EXPECT_EQ(decoded->spec.name, entry.spec.name);
  EXPECT_EQ(decoded->spec.type, entry.spec.type);
  EXPECT_EQ(decoded->spec.dims, entry.spec.dims);
  EXPECT_EQ(decoded->spec.description, entry.spec.description);
  EXPECT_EQ(decoded->spec.buffers, entry.spec.buffers);
  EXPECT_EQ(decoded->spec.temporary, entry.spec.temporary);
  EXPECT_EQ(decoded->key, entry.key);
  EXPECT_EQ(decoded->id, entry.id);
  EXPECT_EQ(decoded->bytes, entry.bytes);
}

TEST(SnapshotEntry, IsRefusedWhenItIsCutOrFollowedByMore) {
  const auto good = make_segment("weights", {2, 3}, 1).entry.to_bytes();
  expect_truncations_refused(good, SnapshotEntry::from_bytes);
  auto longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(SnapshotEntry::from_bytes(view_of(longer)).ok());
}

TEST(SnapshotEntry, SurvivesNoise) {
  survive_noise(make_segment("weights", {2, 3}, 1).entry.to_bytes(), SnapshotEntry::from_bytes);
}

// check() refuses what a caller passes, and the decoder what a file holds.
TEST(SnapshotEntry, IsRefusedWhenNoSegmentCanHaveIt) {
  struct Case {
    std::string cause;
    std::function<void(SnapshotEntry&)> change;
  };
  const std::uint64_t huge = std::uint64_t{1} << 62;
  const std::vector<Case> cases = {
      {"the name has 0 bytes", [](auto& entry) { entry.spec.name.clear(); }},
      {"the name has 256 bytes", [](auto& entry) { entry.spec.name.assign(256, 'n'); }},
      {"the element type 7 is unknown",
       [](auto& entry) { entry.spec.type = static_cast<ElementType>(7); }},
      {"the shape has 17 dimensions", [](auto& entry) { entry.spec.dims.assign(17, 1); }},
      {"the description has 33554433 bytes",
       [](auto& entry) { entry.spec.description.assign(kMaxDescription + 1, 'd'); }},
      {"1 buffers", [](auto& entry) { entry.spec.buffers = 1; }},
      {"65 buffers", [](auto& entry) { entry.spec.buffers = 65; }},
      {"the shape has more than 2^62 bytes", [&](auto& entry) { entry.spec.dims = {huge, 4}; }},
      {"the shape has more than 2^62 bytes",
       [&](auto& entry) {
         entry.spec.dims = {huge};  // times 4 bytes is 0 in 64 bits
         entry.bytes = 0;
       }},
      {"it has 23 bytes, and its shape makes 24", [](auto& entry) { entry.bytes = 23; }},
  };
  for (const Case& each : cases) {
    SnapshotEntry entry = make_segment("weights", {2, 3}, 1).entry;
    ASSERT_TRUE(entry.check().ok());
    each.change(entry);
    EXPECT_EQ(entry.check().code(), StatusCode::kInvalidArgument) << each.cause;
    EXPECT_THAT(entry.check().message(), HasSubstr(each.cause));
    auto decoded = SnapshotEntry::from_bytes(view_of(entry.to_bytes()));
    EXPECT_EQ(decoded.status().code(), StatusCode::kProtocolError) << each.cause;
  }
}

TEST(SnapshotEntry, IsRefusedWithAMarkThatIsNeitherZeroNorOne) {
  std::vector<std::byte> bytes = make_segment("weights", {2, 3}, 1).entry.to_bytes();
  const std::size_t temporary = 4 * 8 + 4 + 7 + 1 + 4;
  bytes[temporary] = std::byte{1};
  ASSERT_TRUE(SnapshotEntry::from_bytes(view_of(bytes)).ok());
  bytes[temporary] = std::byte{2};
  EXPECT_EQ(SnapshotEntry::from_bytes(view_of(bytes)).status().code(), StatusCode::kProtocolError);
}

TEST(SnapshotEntry, OfAnEventHasNoBytes) {
  SnapshotEntry event = make_segment("started", {0}, 1).entry;
  EXPECT_TRUE(event.check().ok());
  event.spec.dims = {std::uint64_t{1} << 62, std::uint64_t{1} << 62, 0};
  EXPECT_TRUE(event.check().ok()) << "a dimension of 0 leaves no element, whatever the others are";
}

TEST(SnapshotEntry, OfAnEpochThatNothingCanFollowIsRefused) {
  SnapshotEntry entry = make_segment("weights", {2, 3}, 1).entry;
  entry.id.epoch = kMaxEpoch;
  EXPECT_TRUE(SnapshotEntry::from_bytes(view_of(entry.to_bytes())).ok());
  entry.id.epoch = kMaxEpoch + 1;
  EXPECT_EQ(SnapshotEntry::from_bytes(view_of(entry.to_bytes())).status().code(),
            StatusCode::kProtocolError);
}

TEST(SnapshotEntry, OfVersion1HasNoEpoch) {
  SnapshotEntry entry = make_segment("weights", {2, 3}, 41).entry;
  entry.id.epoch = 0;
  std::vector<std::byte> bytes = entry.to_bytes();
  bytes.erase(bytes.begin() + 8, bytes.begin() + 16);
  auto decoded = SnapshotEntry::from_version_1(view_of(bytes));
  ASSERT_TRUE(decoded.ok()) << decoded.status().to_string();
  EXPECT_EQ(decoded->to_bytes(), entry.to_bytes());
  expect_truncations_refused(bytes, SnapshotEntry::from_version_1);
}

TEST(SnapshotHead, OfAnotherVersionIsToldFromADamagedOne) {
  const auto good = snapshot_head();
  EXPECT_EQ(read_snapshot_head(view_of(good)).value(), kSnapshotVersion);
  expect_truncations_refused(good, read_snapshot_head);
  auto damaged = good;
  damaged[8] = std::byte{3};
  EXPECT_EQ(read_snapshot_head(view_of(damaged)).status().code(), StatusCode::kProtocolError);
  const auto sum = snapshot_checksum(crc32c({damaged.data(), 12}));
  std::copy(sum.begin(), sum.end(), damaged.begin() + 12);
  const Status later = read_snapshot_head(view_of(damaged)).status();
  EXPECT_EQ(later.code(), StatusCode::kVersionMismatch);
  EXPECT_THAT(later.message(), HasSubstr("version 3"));
}

}  // namespace
}  // namespace farwrite::box
