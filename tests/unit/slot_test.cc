#include "transfer/slot.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace farwrite::transfer {
namespace {

constexpr SlotState kStates[] = {SlotState::kFree, SlotState::kGranted, SlotState::kLanded,
                                 SlotState::kViewed};

TEST(Slot, MovesOnlyAsTheTableSays) {
  const std::set<std::pair<SlotState, SlotState>> legal = {
      {SlotState::kFree, SlotState::kGranted}, {SlotState::kGranted, SlotState::kLanded},
      {SlotState::kGranted, SlotState::kFree}, {SlotState::kLanded, SlotState::kViewed},
      {SlotState::kLanded, SlotState::kFree},  {SlotState::kViewed, SlotState::kViewed},
      {SlotState::kViewed, SlotState::kFree},
  };
  for (const SlotState from : kStates) {
    for (const SlotState to : kStates) {
      EXPECT_EQ(may_follow(from, to), legal.count({from, to}) == 1)
          << static_cast<int>(from) << " -> " << static_cast<int>(to);
    }
    EXPECT_FALSE(may_follow(static_cast<SlotState>(77), from));
  }
}

TEST(Slot, IsNeverLandedOrViewedWithoutAGrant) {
  EXPECT_FALSE(may_follow(SlotState::kFree, SlotState::kLanded));
  EXPECT_FALSE(may_follow(SlotState::kFree, SlotState::kViewed));
  EXPECT_FALSE(may_follow(SlotState::kGranted, SlotState::kViewed));
}

}  // namespace
}  // namespace farwrite::transfer
