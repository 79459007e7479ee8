// Closing landing regions again and again, in any order, never touches another region.
#include <cstring>

#include "fault/fixture.h"

namespace farwrite::fault {
namespace {

class LandingRegions : public FaultTest {
 protected:
  LandingRegions()
      : receiver_(open_device()),
        sender_(open_device()),
        to_(sender_.connect(receiver_.endpoint(), kPatience).value()),
        from_(receiver_.accept(kPatience).value()) {}
  void TearDown() override {
    to_ = from_ = Channel();
    receiver_ = sender_ = Device();
    FaultTest::TearDown();
  }
  Status write_to(const MemoryRegion& region) {
    auto target = to_.open(region.descriptor());
    if (!target.ok()) return target.status();
    const std::string bytes(region.size(), 'w');
    return to_.write({bytes.data(), bytes.size()}, *target).wait(kPatience);
  }

  Device receiver_, sender_;
  Channel to_, from_;
};

TEST_F(LandingRegions, SurviveTheSecondCloseOfAnEarlierOne) {
  MemoryRegion first = from_.allocate(4096).value();
  ASSERT_TRUE(first.close().ok());
  MemoryRegion second = from_.allocate(4096).value();
  ASSERT_TRUE(first.close().ok());
  const Status written = write_to(second);
  EXPECT_TRUE(written.ok()) << written.to_string();
}

TEST_F(LandingRegions, SurviveTheLastHandleOfAnEarlierClosedOne) {
  MemoryRegion first = from_.allocate(4096).value();
  ASSERT_TRUE(first.close().ok());
  MemoryRegion second = from_.allocate(4096).value();
  first = MemoryRegion();
  const Status written = write_to(second);
  EXPECT_TRUE(written.ok()) << written.to_string();
}

TEST_F(LandingRegions, AreNotWrittenOnceClosed) {
  MemoryRegion region = from_.allocate(4096).value();
  auto target = to_.open(region.descriptor()).value();
  std::memset(region.data(), 0, region.size());
  ASSERT_TRUE(region.close().ok());
  const std::string bytes(region.size(), 'w');
  expect_error(to_.write({bytes.data(), bytes.size()}, target).wait(kPatience),
               StatusCode::kFailedPrecondition,
               {receiver_.endpoint().to_string(), "shm", "closed by its owner"});
  expect_error(to_.open(region.descriptor()).status(), StatusCode::kNotFound, {"closed"});
  EXPECT_EQ(region.data()[0], std::byte{0});
}

}  // namespace
}  // namespace farwrite::fault
