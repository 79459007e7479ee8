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
  EXPECT_TRUE(parked.park(lookup("a")).has_value());
  EXPECT_TRUE(parked.park(lookup("b")).has_value());
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
  EXPECT_FALSE(parked.park(lookup("a", 0)).has_value());
}

TEST(ParkedLookups, LetGoOfThoseThatHaveWaitedLongEnough) {
  ParkedLookups parked;
  EXPECT_TRUE(parked.park(lookup("brief", 1)).has_value());
  EXPECT_TRUE(parked.park(lookup("long")).has_value());
  std::vector<LookupMessage> expired;
  while (expired.empty()) expired = parked.take_expired();
  EXPECT_EQ(expired.front().name, "brief");
  int left = 0;
  parked.answer([&](const LookupMessage&) { return ++left > 0; });
  EXPECT_EQ(left, 1);
}

TEST(ParkedLookups, AreBounded) {
  ParkedLookups parked;
  int kept = 0;
  while (parked.park(lookup("a"))) ++kept;
  EXPECT_EQ(kept, 256);
}

}  // namespace
}  // namespace farwrite::device
