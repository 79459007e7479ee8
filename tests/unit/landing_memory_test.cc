#include "device/landing_memory.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>

#include "idle_link.h"

namespace farwrite::device {
namespace {

constexpr std::uint64_t kBytes = 4096;

// Its peer may be in the middle of a write.
class WritingPeer final : public IdleLink {
 public:
  WritingPeer(int& alive, const bool& writes) : IdleLink(alive), writes_(writes) {}
  Status revoke(std::uint64_t, std::uint64_t, core::Deadline) override {
    return writes_ ? Status(StatusCode::kPeerSilent, "the peer writes") : Status();
  }

 private:
  const bool& writes_;
};

class Landing : public ::testing::Test {
 protected:
  Landing() { link_.set(std::make_unique<WritingPeer>(links_, writes_)); }

  std::shared_ptr<RegionState> allocate() {
    memory::ArenaOptions options;
    options.segment_bytes = std::uint64_t{2} << 20;
    options.prefault = false;
    RegionDescriptor descriptor;
    descriptor.region_id = table_->next_id();
    descriptor.length = kBytes;
    return landing_->allocate(options, MemoryKind(), descriptor, FabricKind::kShm, table_, landing_)
        .value();
  }
  std::uint64_t used() const { return landing_->stats().used_bytes; }

  int links_ = 0;
  bool writes_ = false;
  const std::string peer_ = "peer:1";
  ChannelLink link_;
  const std::shared_ptr<RegionTable> table_ = std::make_shared<RegionTable>();
  const std::shared_ptr<LandingMemory> landing_ = std::make_shared<LandingMemory>(link_, peer_);
};

TEST_F(Landing, IsUsedAgainWhenItsRegionIsRevoked) {
  std::shared_ptr<RegionState> region = allocate();
  EXPECT_EQ(region->descriptor().keys.size(), 1u);
  EXPECT_EQ(table_->find(region->descriptor().region_id), region);
  EXPECT_EQ(used(), kBytes);
  region.reset();
  EXPECT_EQ(used(), 0u);
  EXPECT_EQ(landing_->quarantined_bytes(), 0u);
}

TEST_F(Landing, IsInQuarantineWhileThePeerWrites) {
  std::shared_ptr<RegionState> region = allocate();
  writes_ = true;
  region.reset();
  EXPECT_EQ(landing_->quarantined_bytes(), kBytes);
  landing_->settle();
  EXPECT_EQ(used(), kBytes);
  writes_ = false;
  landing_->settle();
  EXPECT_EQ(landing_->quarantined_bytes(), 0u);
  EXPECT_EQ(used(), 0u);
}

TEST_F(Landing, OfAClosedRegionThatAUserHoldsCountsAsQuarantined) {
  const std::shared_ptr<RegionState> region = allocate();
  writes_ = true;
  EXPECT_EQ(region->close({}).code(), StatusCode::kPeerSilent);
  EXPECT_EQ(landing_->quarantined_bytes(), kBytes);
  writes_ = false;
  landing_->settle();
  EXPECT_EQ(landing_->quarantined_bytes(), 0u);
}

TEST_F(Landing, SaysWhetherAllOfItIsRevoked) {
  const std::shared_ptr<RegionState> held = allocate();
  std::shared_ptr<RegionState> dropped = allocate();
  writes_ = true;
  dropped.reset();
  EXPECT_EQ(landing_->revoke_all(core::Deadline::after({})).code(), StatusCode::kPeerSilent);
  writes_ = false;
  EXPECT_TRUE(landing_->revoke_all(core::Deadline::never()).ok());
  EXPECT_TRUE(held->closed());
  EXPECT_EQ(landing_->quarantined_bytes(), 0u);
}

TEST_F(Landing, IsFreeOnceTheLinkHasGone) {
  const std::shared_ptr<RegionState> held = allocate();
  std::shared_ptr<RegionState> dropped = allocate();
  writes_ = true;
  dropped.reset();
  link_.drop();
  EXPECT_EQ(links_, 0);
  landing_->release();
  EXPECT_EQ(used(), kBytes) << "the region that the user holds";
  EXPECT_TRUE(held->close({}).ok()) << "nothing lands without a link";
}

}  // namespace
}  // namespace farwrite::device
