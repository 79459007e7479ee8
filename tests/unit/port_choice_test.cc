#include "core/port_choice.h"

#include <gtest/gtest.h>

#include <set>

namespace farwrite::core {
namespace {

using Ports = std::vector<std::uint16_t>;

TEST(PortChoice, AreThoseOfTheUpperHalfThatBindGivesLast) {
  // bind(2) prefers 32769, 32771, ...; and below 32776 with SO_REUSEADDR.
  EXPECT_EQ(ports_to_try("32768\t32783\n", "\n", 0), (Ports{32776, 32778, 32780, 32782, 0}));
  EXPECT_EQ(ports_to_try("32768 32783", "", 3), (Ports{32782, 32776, 32778, 32780, 0}));
  // A lower bound that is odd turns it round.
  EXPECT_EQ(ports_to_try("32769 32776", "", 0), (Ports{32773, 32775, 0}));
}

TEST(PortChoice, StayWithinTheRangeAndEndWithTheKernels) {
  for (const char* range : {"1024 65535", "1 2", "1 3", "65534 65535", "40000 40009"}) {
    for (std::uint32_t start : {0U, 1U, 12345U, 4294967295U}) {
      const Ports ports = ports_to_try(range, "", start);
      EXPECT_EQ(ports.back(), 0);
      EXPECT_EQ(std::set<std::uint16_t>(ports.begin(), ports.end()).size(), ports.size()) << range;
      EXPECT_LE(ports.size(), 65U);
    }
  }
}

TEST(PortChoice, AreTheKernelsWhereItSaysNothingOrKeepsPortsForSomebody) {
  for (const char* range : {"", "words", "5", "9 8", "0 100", "1 70000", "7 7"}) {
    EXPECT_EQ(ports_to_try(range, "", 1), Ports{0}) << range;
  }
  EXPECT_EQ(ports_to_try("32768 60999", "40000-40010,50000", 1), Ports{0});
}

TEST(PortChoice, AreAllOfAGivenRange) {
  EXPECT_EQ(ports_to_try(PortRange{65533, 65535}), (Ports{65533, 65534, 65535}));
}

}  // namespace
}  // namespace farwrite::core
