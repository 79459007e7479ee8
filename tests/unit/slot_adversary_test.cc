// The rules of slots under a seeded adversary: thousands of different lives of an edge, on one
// thread each. A failing seed is printed; FARWRITE_ADVERSARY_SEED=<n> runs it alone,
// FARWRITE_ADVERSARY_SEEDS=<n> sets how many are tried on each path.
#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <string>

#include "slot_adversary_script.h"

namespace farwrite::transfer {
namespace {

constexpr std::uint64_t kSeeds = 3400;  // on each of three paths

struct Seeds {
  std::uint64_t first = 1, count = kSeeds;
};

Seeds seeds() {
  if (const char* one = std::getenv("FARWRITE_ADVERSARY_SEED")) {
    return {std::strtoull(one, nullptr, 10), 1};
  }
  if (const char* many = std::getenv("FARWRITE_ADVERSARY_SEEDS")) {
    return {1, std::strtoull(many, nullptr, 10)};
  }
  return {};
}

std::string describe(std::uint64_t seed, const SlotRun& run) {
  std::string text = "seed " + std::to_string(seed) + " breaks the rules of slots; run it alone " +
                     "with FARWRITE_ADVERSARY_SEED=" + std::to_string(seed) + "\n";
  for (const std::string& detail : run.details) text += "  " + detail + "\n";
  return text;
}

void expect_rules_kept(SlotPath path) {
  SlotMemory memory;
  SlotRun total;
  const Seeds range = seeds();
  for (std::uint64_t seed = range.first; seed < range.first + range.count; ++seed) {
    const SlotRun run = run_slots(seed, path, SlotMistake::kNone, memory);
    ASSERT_TRUE(run.violations.empty()) << describe(seed, run);
    total.pushed += run.pushed;
    total.offered += run.offered;
    total.stale += run.stale;
    total.resets += run.resets;
  }
  // The runs were not empty.
  if (range.count < 100) return;
  EXPECT_GT(total.pushed, range.count);
  EXPECT_GT(total.offered, range.count);
  EXPECT_GT(total.stale, range.count);
  EXPECT_GT(total.resets, range.count);
}

TEST(SlotAdversary, RulesHoldOnEverySeedWithImmediates) { expect_rules_kept(SlotPath::kImmediate); }

TEST(SlotAdversary, RulesHoldOnEverySeedWithFlushAndMessage) {
  expect_rules_kept(SlotPath::kFlushAndMessage);
}

TEST(SlotAdversary, RulesHoldOnEverySeedWithTailFlags) { expect_rules_kept(SlotPath::kTailFlag); }

TEST(SlotAdversary, SameSeedGivesTheSameTrace) {
  SlotMemory memory;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto trace = [&] {
      return run_slots(seed, SlotPath::kImmediate, SlotMistake::kNone, memory).trace;
    };
    EXPECT_EQ(trace().hash, trace().hash) << "seed " << seed;
  }
}

// A test that cannot fail is a defect: every mistake must be found, and by the right check.
struct Mistake {
  SlotMistake mistake;
  SlotPath path;
  SlotViolation violation;
  const char* name;
};

class SlotAdversaryCatches : public testing::TestWithParam<Mistake> {};

TEST_P(SlotAdversaryCatches, TheMistakeWithinAHundredSeeds) {
  SlotMemory memory;
  const Mistake& mistake = GetParam();
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const SlotRun run = run_slots(seed, mistake.path, mistake.mistake, memory);
    if (run.violations.count(mistake.violation) == 0) continue;
    std::cout << mistake.name << " is caught with seed " << seed << "\n";
    EXPECT_EQ(run_slots(seed, mistake.path, mistake.mistake, memory).details, run.details)
        << "seed " << seed << " is not reproducible";
    return;
  }
  FAIL() << "no seed up to 100 shows " << mistake.name;
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, SlotAdversaryCatches,
    testing::Values(Mistake{SlotMistake::kFlagBeforeData, SlotPath::kImmediate,
                            SlotViolation::kTorn, "FlagBeforeData"},
                    Mistake{SlotMistake::kTailFlagWithoutOrder, SlotPath::kTailFlag,
                            SlotViolation::kTorn, "TailFlagWithoutOrder"},
                    Mistake{SlotMistake::kEarlyAcknowledgement, SlotPath::kFlushAndMessage,
                            SlotViolation::kTorn, "EarlyAcknowledgement"},
                    Mistake{SlotMistake::kCreditTooSoon, SlotPath::kImmediate,
                            SlotViolation::kViewChanged, "CreditTooSoon"},
                    Mistake{SlotMistake::kCreditTwice, SlotPath::kImmediate,
                            SlotViolation::kUnbalanced, "CreditTwice"},
                    Mistake{SlotMistake::kNoGenerationCheck, SlotPath::kImmediate,
                            SlotViolation::kAborted, "LatePushAfterAbort"},
                    Mistake{SlotMistake::kNoRoundCheck, SlotPath::kImmediate,
                            SlotViolation::kAborted, "LateOfferAfterAbort"},
                    Mistake{SlotMistake::kStaleEpoch, SlotPath::kImmediate,
                            SlotViolation::kWrongTensor, "StaleEpoch"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace farwrite::transfer
