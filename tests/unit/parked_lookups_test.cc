#include "device/parked_lookups.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

namespace farwrite::device {
namespace {

constexpr std::uint64_t kForeverMs = std::numeric_limits<std::uint64_t>::max();

LookupMessage lookup(std::string name, std::uint64_t wait_ms = kForeverMs) {
  LookupMessage message;
  message.name = std::move(name);
  message.wait_ms = wait_ms;
  return message;
}

TEST(ParkedLookups, WaitUntilTheyAreAnswered) {
  ParkedLookups parked;
  EXPECT_TRUE(parked.park(lookup("a")));
  EXPECT_TRUE(parked.park(lookup("b")));
  std::vector<std::string> asked;
  const auto only_a = [&](const LookupMessage& message) {
    asked.push_back(message.name);
    return message.name == "a";
  };
  parked.answer(only_a);
  parked.answer(only_a);
  EXPECT_EQ(asked, (std::vector<std::string>{"a", "b", "b"}));
  EXPECT_TRUE(parked.take_expired().empty());
}

TEST(ParkedLookups, TakeNoneThatDoesNotWait) {
  ParkedLookups parked;
  EXPECT_FALSE(parked.park(lookup("a", 0)));
}

TEST(ParkedLookups, LetGoOfThoseThatHaveWaitedLongEnough) {
  ParkedLookups parked;
  EXPECT_TRUE(parked.park(lookup("brief", 1)));
  EXPECT_TRUE(parked.park(lookup("long")));
  std::vector<LookupMessage> expired;
  while (expired.empty()) expired = parked.take_expired();
  EXPECT_EQ(expired.front().name, "brief");
  int left = 0;
  parked.answer([&](const LookupMessage&) { return ++left > 0; });
  EXPECT_EQ(left, 1);
}

TEST(ParkedLookups, AreBounded) {
  ParkedLookups parked;
  std::size_t kept = 0;
  while (parked.park(lookup("a"))) ++kept;
  EXPECT_EQ(kept, ParkedLookups::kMostParked);
  EXPECT_TRUE(parked.full());
}

TEST(ParkedLookups, SaysOnceHowLongEachStillWaitsNearItsEnd) {
  ParkedLookups parked;
  parked.park(lookup("brief", 500));
  parked.park(lookup("long", 60'000));
  const auto stretches = parked.take_last_stretches();
  ASSERT_EQ(stretches.size(), 1u);
  EXPECT_LE(stretches.front(), std::chrono::milliseconds(500));
  EXPECT_TRUE(parked.take_last_stretches().empty());
}

}  // namespace
}  // namespace farwrite::device
