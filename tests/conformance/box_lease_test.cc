// Leases of a box's segments (include/farwrite/box.h), requirement M1.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "conformance/box_fixture.h"

namespace farwrite::box {
namespace {

constexpr std::uint64_t kLeaseElements = 3000;
constexpr std::uint64_t kLeaseLarge = 2 * kChunkBytes / sizeof(float) + 1000;  // three chunks

using BoxLeases = BoxConformance;

TEST_P(BoxLeases, ALeasePinsAVersionWhileChangesGoOn) {
  const Segment segment = create(connect(), vector_spec("weights", kLeaseLarge));
  Result<Segment> watched = connect().attach("weights");
  ASSERT_OK(watched);
  const std::vector<float> ones(kLeaseLarge, 1.0F);
  apply(segment, accumulate(ones));
  Result<LeasedSegment> first = watched->lease(kHang);
  ASSERT_OK(first);
  EXPECT_EQ(1U, first->version());
  for (int i = 0; i < 5; ++i) apply(segment, accumulate(ones));
  write(segment, std::vector<float>(kLeaseLarge, 9.0F));
  Result<LeasedSegment> second = watched->lease(kHang);
  ASSERT_OK(second);
  EXPECT_EQ(7U, second->version());
  const auto at = [](const LeasedSegment& lease, std::uint64_t i) {
    return reinterpret_cast<const float*>(lease.bytes().data)[i];
  };
  for (std::uint64_t i = 0; i < kLeaseLarge; ++i) {
    ASSERT_EQ(1.0F, at(first.value(), i));
    ASSERT_EQ(9.0F, at(second.value(), i));
  }
}

// Between hosts a lease ends when its bytes have been read.
class BoxOnOneHost : public BoxConformance {};

TEST_P(BoxOnOneHost, LeasesOfTooManyVersionsAreRefusedAndChangesGoOn) {
  if (GetParam().fabric != FabricKind::kShm)
    GTEST_SKIP() << "leases are short where bytes are read";
  SegmentSpec spec = vector_spec("weights", kLeaseElements);
  spec.buffers = 3;
  const Segment segment = create(connect(), spec);
  std::vector<LeasedSegment> leases;
  for (int i = 0; i < 2; ++i) {
    Result<LeasedSegment> lease = segment.lease(kHang);
    ASSERT_OK(lease);
    leases.push_back(lease.value());
    apply(segment, change_of(Operation::kFill, i + 1.0));
  }
  EXPECT_CODE(kResourceExhausted, segment.lease(kHang).status());
  for (int i = 0; i < 4; ++i) apply(segment, change_of(Operation::kScale, 2.0));
  EXPECT_TRUE(all_are(32.0F, read(segment)));
  leases.clear();
  EXPECT_TRUE(eventually([&] { return segment.lease(kHang).ok(); }));
}

TEST_P(BoxOnOneHost, ALeaseThatCameBackFreesItsBufferWhileTheServerIsBusyWithItsClient) {
  if (GetParam().fabric != FabricKind::kShm)
    GTEST_SKIP() << "leases are short where bytes are read";
  SegmentSpec spec = vector_spec("small", kLeaseElements);
  spec.buffers = 2;
  const Client holder = connect();
  const Segment small = create(holder, spec);
  const Segment large = create(holder, vector_spec("large", 16 * kLeaseLarge));
  Result<Segment> other = connect().attach("small");
  ASSERT_OK(other);
  std::optional<LeasedSegment> lease = small.lease(kHang).value();
  apply(small, change_of(Operation::kFill, 1.0));
  EXPECT_CODE(kResourceExhausted, other->lease(kHang).status());
  std::vector<Update> changes;
  changes.reserve(100);
  for (int i = 0; i < 100; ++i) changes.push_back(large.post(change_of(Operation::kScale, 1.0)));
  ASSERT_OK(changes.front().done.wait(kHang));  // it is busy with the others
  lease.reset();
  EXPECT_OK(other->lease(kHang).status());
  for (const Update& change : changes) ASSERT_OK(change.done.wait(kHang));
}

TEST_P(BoxOnOneHost, AReadOutlastsLeasesThatLeaveItNoBuffer) {
  SegmentSpec spec = vector_spec("weights", kLeaseLarge);
  spec.buffers = 2;
  const Segment segment = create(connect(), spec);
  const Result<Segment> reader = connect().attach("weights");
  ASSERT_OK(reader);
  Result<LeasedSegment> lease = segment.lease(kHang);
  ASSERT_OK(lease);
  apply(segment, change_of(Operation::kFill, 1.0));
  EXPECT_EQ(StatusCode::kResourceExhausted, reader.value().lease(kHang).status().code());
  std::atomic<bool> stop = false;
  std::thread changing([&] {
    while (!stop) apply(segment, change_of(Operation::kScale, -1.0));
  });
  std::thread releasing([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    lease = LeasedSegment();
  });
  for (int round = 0; round < 60; ++round) {
    const std::vector<float> values = read(reader.value());
    EXPECT_TRUE(all_are(values.front(), values)) << "round " << round;
  }
  releasing.join();
  stop = true;
  changing.join();
}

TEST_P(BoxLeases, ASignalDisturbsNoLease) {
  const Segment segment = create(connect(), vector_spec("weights", kLeaseElements));
  const Result<LeasedSegment> lease = segment.lease(kHang);
  ASSERT_OK(lease);
  EXPECT_EQ(1U, apply(segment, change_of(Operation::kSignal)));
  EXPECT_EQ(0U, server().stats().copies_for_leases);
  EXPECT_EQ(0U, lease.value().version());
}

TEST_P(BoxLeases, AClientThatLeavesGivesBackItsLeasesWhenTheyEnd) {
  const Client client = connect();
  const Segment segment = create(client, vector_spec("weights", kLeaseElements));
  apply(segment, change_of(Operation::kFill, 7.0));
  Client leaving = connect();
  Result<Segment> its = leaving.attach("weights");
  ASSERT_OK(its);
  {
    const Result<LeasedSegment> lease = its->lease(kHang);
    ASSERT_OK(lease);
    ASSERT_OK(leaving.close());
    for (int i = 0; i < 6; ++i) apply(segment, change_of(Operation::kFill, 1.0 * i));
    const auto* const values = reinterpret_cast<const float*>(lease.value().bytes().data);
    EXPECT_TRUE(
        std::all_of(values, values + kLeaseElements, [](float value) { return value == 7.0F; }));
  }
  EXPECT_TRUE(eventually([&] { return server().stats().leases == 0; }));
}

FARWRITE_EVERY_FABRIC(BoxLeases);
INSTANTIATE_TEST_SUITE_P(Shm, BoxOnOneHost, testing::Values(Variant{FabricKind::kShm, 1, 1}),
                         variant_name);

}  // namespace
}  // namespace farwrite::box
