// The numbers that tell versions of one number apart (src/box/epoch.h).
#include "box/epoch.h"

#include <gtest/gtest.h>

#include <set>

namespace farwrite::box {
namespace {

using std::chrono::microseconds;

// Ahead of what other tests of this process have reached.
constexpr std::uint64_t kAhead = std::uint64_t{1} << 61;

TEST(NewEpoch, IsTheClockWhereTheClockIsAhead) {
  EXPECT_GE(new_epoch(3, microseconds(kAhead)), kAhead);
}

TEST(NewEpoch, IsAboveEveryOneBeforeAlsoWhenTheClockGoesBackOrStandsStill) {
  std::uint64_t last = new_epoch();
  for (const std::int64_t now : {50, 50, 7, 0, -5}) {
    const std::uint64_t next = new_epoch(0, microseconds(now));
    EXPECT_GT(next, last) << now;
    last = next;
  }
}

// Two servers with a slow clock restore one snapshot. Neither knows of the other.
TEST(NewEpoch, IsNotTheNextNumberWhereTheClockIsBehind) {
  const std::uint64_t stored = kAhead + (std::uint64_t{1} << 60);
  std::set<std::uint64_t> steps;
  std::uint64_t above = stored;
  for (int time = 0; time < 4; ++time) {
    const std::uint64_t next = new_epoch(above, microseconds(5));
    EXPECT_GT(next, above);
    steps.insert(next - above);
    above = next;
  }
  EXPECT_GT(steps.size(), 1U);
}

}  // namespace
}  // namespace farwrite::box
