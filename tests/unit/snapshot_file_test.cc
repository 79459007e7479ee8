// No damage of a snapshot file goes unnoticed, and a forged file does no harm.
#include "box/snapshot_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "unit/snapshot_builder.h"
#include "unit/snapshot_fixture.h"

namespace farwrite::box {
namespace {

using testing::HasSubstr;

SnapshotBuilder two_segments() {
  SnapshotBuilder builder;
  for (const StoredSegment& each : {make_segment("a", {2, 2}, 5), make_segment("b", {0}, 6)}) {
    builder.segment(view_of(each.entry.to_bytes()), view_of(each.data));
  }
  return builder;
}

// The error of opening bytes that are no snapshot.
std::string refusal(const std::vector<std::byte>& bytes) {
  const auto opened = open_snapshot(view_of(bytes));
  EXPECT_EQ(opened.status().code(), StatusCode::kProtocolError) << opened.status().to_string();
  return opened.status().message();
}

TEST(SnapshotFile, NoticesEveryFlippedBit) {
  const std::vector<std::byte> good = two_segments().finish();
  ASSERT_TRUE(open_snapshot(view_of(good)).ok());
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::vector<std::byte> bytes = good;
      bytes[at] ^= static_cast<std::byte>(1 << bit);
      EXPECT_NE(refusal(bytes), "") << "bit " << bit << " of byte " << at << " of " << good.size();
    }
  }
}

TEST(SnapshotFile, NoticesEveryTruncation) {
  expect_truncations_refused(two_segments().finish(), open_snapshot);
}

TEST(SnapshotFile, NoticesBytesBehindItsEnd) {
  std::vector<std::byte> bytes = two_segments().finish();
  bytes.push_back(std::byte{0});
  EXPECT_THAT(refusal(bytes), HasSubstr("belongs to a file of"));
}

TEST(SnapshotFile, NoticesASegmentThatIsMissingOrFromAnotherSnapshot) {
  SnapshotEnd end = two_segments().right_end();
  const StoredSegment first = make_segment("a", {2, 2}, 5);
  const StoredSegment other = make_segment("b", {0}, 7);
  SnapshotBuilder missing;
  missing.segment(view_of(first.entry.to_bytes()), view_of(first.data));
  SnapshotBuilder mixed = missing;
  mixed.segment(view_of(other.entry.to_bytes()), {});
  EXPECT_THAT(refusal(mixed.finish(end)), HasSubstr("belongs to other segments"));
  end.file_bytes = missing.right_end().file_bytes;
  EXPECT_THAT(refusal(missing.finish(end)), HasSubstr("2 segments, and this one has 1"));
}

TEST(SnapshotFile, RefusesAForgedSizeBeforeItReservesMemory) {
  StoredSegment huge = make_segment("huge", {1}, 1);
  huge.entry.spec.type = ElementType::kBytes;
  for (const std::uint64_t bytes :
       {std::uint64_t{1} << 40, (std::uint64_t{1} << 62) - 1, std::uint64_t{99}}) {
    huge.entry.spec.dims = {bytes};
    huge.entry.bytes = bytes;
    SnapshotBuilder builder;
    builder.segment(view_of(huge.entry.to_bytes()), view_of(huge.data));
    EXPECT_THAT(refusal(builder.finish()), HasSubstr("is shorter than the"));
  }
}

TEST(SnapshotFile, RefusesAForgedLengthOfARecord) {
  for (const std::uint32_t length :
       {std::uint32_t{100}, std::uint32_t{1} << 22, std::numeric_limits<std::uint32_t>::max()}) {
    std::vector<std::byte> bytes = two_segments().finish();
    for (std::size_t i = 0; i < 4; ++i) {
      bytes[kSnapshotHeadBytes + 1 + i] = static_cast<std::byte>(length >> (8 * i));
    }
    EXPECT_NE(refusal(bytes), "") << length;
  }
}

TEST(SnapshotFile, RefusesAMalformedSegmentAndAnUnknownRecordWithRightChecksums) {
  SnapshotBuilder malformed;
  malformed.segment({"nonsense", 8}, {});
  EXPECT_THAT(refusal(malformed.finish()), HasSubstr("is malformed"));
  SnapshotBuilder unknown;
  unknown.record(static_cast<SnapshotRecord>(3), {});
  EXPECT_THAT(refusal(unknown.finish()), HasSubstr("unknown kind"));
  SnapshotBuilder short_end;
  short_end.record(SnapshotRecord::kEnd, {"short", 5});
  EXPECT_THAT(refusal(short_end.finish()), HasSubstr("is malformed"));
}

TEST(SnapshotFile, ReadsOnlyIntoMemoryOfTheSegmentsSize) {
  auto file = open_snapshot(view_of(two_segments().finish()));
  ASSERT_TRUE(file.ok());
  std::vector<std::byte> out(32);
  EXPECT_EQ(file->read({out.data(), 16}).code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(file->next().value().has_value());
  EXPECT_EQ(file->read({out.data(), 15}).code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(file->read({out.data(), 17}).code(), StatusCode::kInvalidArgument);
  EXPECT_TRUE(file->read({out.data(), 16}).ok());
  EXPECT_TRUE(file->read({out.data(), 16}).ok()) << "and a second time";
  EXPECT_TRUE(std::equal(out.begin(), out.begin() + 16, make_segment("a", {4}, 5).data.begin()));
}

TEST(SnapshotFile, SkipsTheDataThatNobodyReads) {
  auto file = open_snapshot(view_of(two_segments().finish()));
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->next().value()->spec.name, "a");
  EXPECT_EQ(file->next().value()->spec.name, "b");
  EXPECT_FALSE(file->next().value().has_value());
  EXPECT_FALSE(file->next().value().has_value()) << "the end stays the end";
}

// The file was whole when it was opened, and the disk or a person changes it afterwards.
TEST(SnapshotFile, NoticesAChangeBetweenItsCheckAndARead) {
  const std::vector<std::byte> good = two_segments().finish();
  core::UniqueFd kept = file_of(view_of(good));
  auto file = SnapshotFile::open(core::UniqueFd(::dup(kept.get())), "snapshot");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE(file->next().value().has_value());
  const auto data = make_segment("a", {4}, 5).data;
  const auto at = std::search(good.begin(), good.end(), data.begin(), data.end()) - good.begin();
  ASSERT_EQ(::pwrite(kept.get(), "!", 1, at), 1);
  std::vector<std::byte> out(16);
  EXPECT_EQ(file->read({out.data(), out.size()}).code(), StatusCode::kProtocolError);
  ASSERT_EQ(::ftruncate(kept.get(), at + 1), 0);
  EXPECT_THAT(file->read({out.data(), out.size()}).message(), HasSubstr("was cut off"));
  EXPECT_EQ(file->next().status().code(), StatusCode::kProtocolError);
}

TEST(SnapshotFile, IsARegularFile) {
  const auto opened = SnapshotFile::open(core::UniqueFd(::open("/dev/zero", O_RDONLY)), "zero");
  EXPECT_EQ(opened.status().message(), "zero: not a regular file");
}

}  // namespace
}  // namespace farwrite::box
