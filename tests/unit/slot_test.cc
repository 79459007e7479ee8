#include "farwrite/slot.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace farwrite {
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
          << to_string(from) << " -> " << to_string(to);
    }
    EXPECT_FALSE(may_follow(static_cast<SlotState>(77), from));
  }
}

TEST(Slot, IsNeverLandedOrViewedWithoutAGrant) {
  EXPECT_FALSE(may_follow(SlotState::kFree, SlotState::kLanded));
  EXPECT_FALSE(may_follow(SlotState::kFree, SlotState::kViewed));
  EXPECT_FALSE(may_follow(SlotState::kGranted, SlotState::kViewed));
}

TEST(Lease, IsReleasedOnceAndNeverHeldAgain) {
  EXPECT_TRUE(may_follow(LeaseState::kHeld, LeaseState::kReleased));
  EXPECT_FALSE(may_follow(LeaseState::kReleased, LeaseState::kHeld));
  EXPECT_FALSE(may_follow(LeaseState::kHeld, LeaseState::kHeld));
  EXPECT_FALSE(may_follow(LeaseState::kReleased, LeaseState::kReleased));
}

TEST(Slot, HasAWordForEveryState) {
  std::set<std::string_view> words;
  for (const SlotState state : kStates) words.insert(to_string(state));
  words.insert(to_string(LeaseState::kHeld));
  words.insert(to_string(LeaseState::kReleased));
  EXPECT_EQ(words, (std::set<std::string_view>{"FREE", "GRANTED", "LANDED", "VIEWED", "HELD",
                                               "RELEASED"}));
}

}  // namespace
}  // namespace farwrite
