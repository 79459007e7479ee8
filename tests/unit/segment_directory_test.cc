// The attachments of a box's segments (src/box/segment_directory.h).
#include "box/segment_directory.h"

#include <gtest/gtest.h>

namespace farwrite::box {
namespace {

class SegmentTableTest : public testing::Test {
 protected:
  static SegmentSpec scratch() {
    SegmentSpec spec;
    spec.name = "scratch";
    spec.dims = {4};
    spec.temporary = true;
    return spec;
  }
  SegmentDirectory::Segment create() {
    return table_.create(scratch(), Creation::kOpenOrCreate).value();
  }

  static Device open_device() {
    DeviceOptions options;
    options.listen = {"127.0.0.1", 0};
    options.fabrics = {FabricKind::kShm};
    options.send_limit = options.receive_limit = 1 << 22;
    return Device::open(options).value();
  }

  SegmentDirectory table_ = SegmentDirectory(open_device());
};

TEST_F(SegmentTableTest, EveryWayToASegmentAttachesItInTheSameStep) {
  const SegmentDirectory::Segment made = create();
  const SegmentDirectory::Segment opened = create();
  const SegmentDirectory::Segment by_name = table_.attach("scratch").value();
  const SegmentDirectory::Segment by_key = table_.attach(made->key()).value();
  SegmentDirectory::Segment awaited;
  table_.await("scratch", [&](const SegmentDirectory::Segment& found) { awaited = found; });
  EXPECT_EQ(5U, table_.describe(*made).attached);
  for (const auto& one : {made, opened, by_name, by_key}) {
    EXPECT_EQ(made, one);
    table_.detach(one);
    EXPECT_FALSE(made->freed());
  }
  table_.detach(awaited);
  EXPECT_TRUE(made->freed());
  EXPECT_EQ(StatusCode::kNotFound, table_.attach("scratch").status().code());
}

TEST_F(SegmentTableTest, ASegmentThatSomebodyAwaitsOutlivesItsCreator) {
  SegmentDirectory::Segment awaited;
  EXPECT_NE(0U, table_.await("scratch",
                             [&](const SegmentDirectory::Segment& found) { awaited = found; }));
  const SegmentDirectory::Segment made = create();
  EXPECT_EQ(made, awaited);
  table_.detach(made);
  EXPECT_FALSE(made->freed());
  table_.detach(awaited);
  EXPECT_TRUE(made->freed());
}

TEST_F(SegmentTableTest, ALateDetachLeavesTheNextSegmentOfTheNameAlone) {
  const SegmentDirectory::Segment first = create();
  ASSERT_TRUE(table_.free(first).ok());
  const SegmentDirectory::Segment next = create();
  table_.detach(first);
  EXPECT_FALSE(next->freed());
  EXPECT_EQ(1U, table_.describe(*next).attached);
  EXPECT_EQ(next, table_.attach("scratch").value());
}

TEST_F(SegmentTableTest, EverySegmentOfANameHasItsOwnEpoch) {
  const SegmentDirectory::Segment first = create();
  EXPECT_NE(0U, first->id().epoch);
  ASSERT_TRUE(table_.free(first).ok());
  EXPECT_GT(create()->id().epoch, first->id().epoch);
}

TEST_F(SegmentTableTest, ARestoredVersionHasAnEpochAboveTheStoredOne) {
  const auto nothing = [](MutableByteView) { return Status(); };
  const VersionId stored = {.epoch = std::uint64_t{1} << 60, .version = 5};
  std::uint64_t before = stored.epoch;
  for (int time = 0; time < 2; ++time) {
    const SegmentDirectory::Segment restored =
        table_.restore(scratch(), 7, stored, nothing).value();
    EXPECT_EQ(5U, restored->id().version);
    EXPECT_GT(restored->id().epoch, before);
    before = restored->id().epoch;
    ASSERT_TRUE(table_.free(restored).ok());
  }
}

TEST_F(SegmentTableTest, ARefusedCreationAttachesNothing) {
  const SegmentDirectory::Segment made = create();
  EXPECT_EQ(StatusCode::kAlreadyExists,
            table_.create(scratch(), Creation::kExclusive).status().code());
  SegmentSpec longer = scratch();
  longer.dims = {5};
  EXPECT_EQ(StatusCode::kInvalidArgument,
            table_.create(longer, Creation::kOpenOrCreate).status().code());
  EXPECT_EQ(1U, table_.describe(*made).attached);
}

}  // namespace
}  // namespace farwrite::box
