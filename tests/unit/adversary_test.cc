// The contract under a seeded adversary, on the fabric's own interface: thousands of different
// runs of one thread each. A failing seed is printed; FARWRITE_ADVERSARY_SEED=<n> runs it alone,
// FARWRITE_ADVERSARY_SEEDS=<n> sets how many are tried.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "adversary_script.h"

namespace farwrite::fabric {
namespace {

struct SeedRange {
  std::uint64_t first = 1;
  std::uint64_t count = 0;
};

SeedRange seeds(std::uint64_t count) {
  if (const char* one = std::getenv("FARWRITE_ADVERSARY_SEED")) {
    return {std::strtoull(one, nullptr, 10), 1};
  }
  if (const char* many = std::getenv("FARWRITE_ADVERSARY_SEEDS")) {
    count = std::strtoull(many, nullptr, 10);
  }
  return {1, count};
}

std::string describe(std::uint64_t seed, const ScriptResult& result) {
  std::string text = "seed " + std::to_string(seed) + " breaks the contract; run it alone with " +
                     "FARWRITE_ADVERSARY_SEED=" + std::to_string(seed) + "\n";
  for (const std::string& detail : result.details) text += "  " + detail + "\n";
  return text;
}

void expect_contract_kept(Ending ending, std::uint64_t count) {
  const SeedRange range = seeds(count);
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    const ScriptResult result = run_script(seed, Lowering::kCorrect, ending);
    ASSERT_TRUE(result.violations.empty()) << describe(seed, result);
  }
}

TEST(Adversary, CorrectLoweringKeepsTheContractOnEverySeed) {
  expect_contract_kept(Ending::kDrained, 2000);
}

TEST(Adversary, KilledPeerEndsEveryOperationAndTearsNothing) {
  expect_contract_kept(Ending::kKilled, 500);
}

TEST(Adversary, RevokedMemoryIsNotWrittenAndNotifiesNothingTorn) {
  expect_contract_kept(Ending::kRevoked, 500);
}

TEST(Adversary, ClosedLinkEndsEveryOperationAndNoLaterByteLands) {
  expect_contract_kept(Ending::kClosed, 500);
}

TEST(Adversary, SameSeedGivesTheSameTrace) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const Trace once = run_script(seed, Lowering::kCorrect).trace;
    const Trace again = run_script(seed, Lowering::kCorrect).trace;
    EXPECT_EQ(once.hash, again.hash) << "seed " << seed;
    EXPECT_EQ(once.deliveries, again.deliveries) << "seed " << seed;
    EXPECT_NE(once.hash, run_script(seed + 1, Lowering::kCorrect).trace.hash) << "seed " << seed;
  }
}

// A test that cannot fail is a defect: every mistake must be found, and by the right check.
struct Mistake {
  Lowering lowering;
  Violation violation;
  Ending ending = Ending::kDrained;
  const char* name;
};

class AdversaryCatches : public testing::TestWithParam<Mistake> {};

TEST_P(AdversaryCatches, WrongLoweringWithinFiftySeeds) {
  const Mistake& mistake = GetParam();
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    const ScriptResult result = run_script(seed, mistake.lowering, mistake.ending);
    if (result.violations.count(mistake.violation) != 0) {
      std::cout << "\"" << to_string(mistake.lowering) << "\" is caught with seed " << seed << "\n";
      const ScriptResult again = run_script(seed, mistake.lowering, mistake.ending);
      EXPECT_EQ(again.details, result.details) << "seed " << seed << " is not reproducible";
      return;
    }
  }
  FAIL() << "no seed up to 50 shows that \"" << to_string(mistake.lowering) << "\" is wrong";
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, AdversaryCatches,
    testing::Values(
        Mistake{Lowering::kNotificationBeforeData, Violation::kTorn, Ending::kDrained,
                "NotificationBeforeData"},
        Mistake{Lowering::kTailFlag, Violation::kTorn, Ending::kDrained, "TailFlag"},
        Mistake{Lowering::kUnsequenced, Violation::kLaneOrder, Ending::kDrained,
                "UnsequencedByOrder"},
        Mistake{Lowering::kUnsequenced, Violation::kTwice, Ending::kDrained, "UnsequencedByCount"},
        Mistake{Lowering::kEarlyFlush, Violation::kEarlyFlush, Ending::kDrained, "EarlyFlush"},
        Mistake{Lowering::kLateBytes, Violation::kLateByte, Ending::kRevoked, "LateBytes"},
        Mistake{Lowering::kUnfetchedSource, Violation::kSourceInUse, Ending::kDrained,
                "UnfetchedSource"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace farwrite::fabric
