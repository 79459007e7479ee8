#include "core/deadline.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <climits>
#include <thread>

#include "core/cpu_relax.h"

namespace farwrite::core {
namespace {

using std::chrono::hours;
using std::chrono::nanoseconds;

TEST(Deadline, IsExpiredAtOnceForZeroAndForNegativeTimeouts) {
  for (const nanoseconds timeout : {nanoseconds(0), nanoseconds(-1), nanoseconds::min()}) {
    const Deadline deadline = Deadline::after(timeout);
    EXPECT_TRUE(deadline.expired());
    EXPECT_EQ(deadline.remaining(), nanoseconds(0));
    EXPECT_EQ(deadline.poll_timeout_ms(), 0);
  }
}

TEST(Deadline, NeverHasNoEnd) {
  const Deadline never = Deadline::never();
  EXPECT_TRUE(never.is_never());
  EXPECT_FALSE(never.expired());
  EXPECT_EQ(never.remaining(), nanoseconds::max());
  EXPECT_EQ(never.poll_timeout_ms(), -1);
}

TEST(Deadline, TakesACenturyForNever) {
  EXPECT_TRUE(Deadline::after(nanoseconds::max()).is_never());
  EXPECT_TRUE(Deadline::after(hours(24 * 365 * 100)).is_never());
  EXPECT_FALSE(Deadline::after(hours(24 * 365 * 99)).is_never());
}

TEST(Deadline, CountsDownFromItsTimeout) {
  const Deadline deadline = Deadline::after(hours(1));
  EXPECT_FALSE(deadline.expired());
  const nanoseconds first = deadline.remaining();
  EXPECT_LE(first, hours(1));
  EXPECT_GT(first, nanoseconds(0));
  EXPECT_LE(deadline.remaining(), first);
}

TEST(Deadline, ExpiresOnceItsTimeoutHasPassed) {
  const auto start = std::chrono::steady_clock::now();
  const Deadline deadline = Deadline::after(std::chrono::milliseconds(2));
  while (!deadline.expired()) cpu_relax();
  EXPECT_GE(std::chrono::steady_clock::now() - start, std::chrono::milliseconds(2));
  EXPECT_EQ(deadline.remaining(), nanoseconds(0));
}

// Each deadline is made from a whole number of milliseconds, and some of it has passed by the time
// it is asked: rounding down would lose a millisecond, and never reach the timeout.
TEST(Deadline, RoundsThePollTimeoutUp) {
  bool reached = false;
  for (int i = 0; i < 1000 && !reached; ++i) {
    const int timeout = Deadline::after(std::chrono::milliseconds(50)).poll_timeout_ms();
    ASSERT_LE(timeout, 50);
    reached = timeout == 50;
  }
  EXPECT_TRUE(reached);
}

TEST(Deadline, CutsALongPollTimeoutToTheLargestInt) {
  EXPECT_EQ(Deadline::after(hours(24 * 365)).poll_timeout_ms(), INT_MAX);
}

TEST(Deadline, EarlierPicksTheFirstWhateverTheOrder) {
  const Deadline past = Deadline::after(nanoseconds(0));
  const Deadline later = Deadline::after(hours(1));
  EXPECT_TRUE(past.earlier(later).expired());
  EXPECT_TRUE(later.earlier(past).expired());
  EXPECT_FALSE(later.earlier(Deadline::never()).is_never());
  EXPECT_FALSE(Deadline::never().earlier(later).is_never());
  EXPECT_TRUE(Deadline::never().earlier(Deadline::never()).is_never());
}

TEST(SpinBudget, FailsAtOnceWithoutABudget) {
  EXPECT_FALSE(SpinBudget(nanoseconds(0)).spin());
  EXPECT_FALSE(SpinBudget(nanoseconds(-5)).spin());
}

// In a thread that has not met one that computes; on a busy machine not at the first try.
template <typename Body>
bool in_a_new_thread(Body body) {
  const Deadline patience = Deadline::after(std::chrono::minutes(1));
  while (!patience.expired()) {
    bool ok = false;
    std::thread([&] { ok = body(); }).join();
    if (ok) return true;
  }
  return false;
}

TEST(SpinBudget, SpinsUntilItsTimeIsSpentAndThenFailsForGood) {
  EXPECT_TRUE(in_a_new_thread([] {
    const auto start = std::chrono::steady_clock::now();
    SpinBudget budget(std::chrono::milliseconds(2));
    while (budget.spin()) {
    }
    const bool took_it = std::chrono::steady_clock::now() - start >= std::chrono::milliseconds(2);
    for (int i = 0; i < 100; ++i) EXPECT_FALSE(budget.spin());
    return took_it;
  }));
}

TEST(SpinBudget, IsNotSpentByTimeIfEndless) {
  EXPECT_TRUE(in_a_new_thread([] {
    SpinBudget budget(nanoseconds::max());
    int turns = 0;
    while (turns < 1000 && budget.spin()) ++turns;
    return turns == 1000;
  }));
}

void stay_on_this_processor() {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(::sched_getcpu(), &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
}

TEST(SpinBudget, IsSpentBesideAThreadThatComputes) {
  std::thread([] {
    stay_on_this_processor();
    std::atomic<bool> over = false;
    std::thread computes([&] {  // on the same processor
      while (!over) {
      }
    });
    const Deadline patience = Deadline::after(std::chrono::minutes(1));
    SpinBudget budget(nanoseconds::max());
    while (budget.spin() && !patience.expired()) {
    }
    EXPECT_FALSE(budget.spin());
    EXPECT_FALSE(SpinBudget(nanoseconds::max()).spin());  // nor soon after
    over = true;
    computes.join();
  }).join();
}

TEST(SpinBudget, LetsTheThreadRunThatIsWaitedFor) {
  std::thread([] {
    stay_on_this_processor();
    constexpr int kRounds = 200;
    std::atomic<int> round = 0;
    std::atomic<long> turns = 0;
    const auto play = [&](int mine) {
      for (int i = mine; i < kRounds; i += 2) {
        SpinBudget budget(nanoseconds::max());
        while (round != i) {
          if (budget.spin()) {
            turns.fetch_add(1);
          } else {
            std::this_thread::yield();
          }
        }
        round = i + 1;
      }
    };
    std::thread other([&] { play(1); });
    play(0);
    other.join();
    // Otherwise each round takes a time slice, of about 100,000 turns.
    EXPECT_LT(turns.load(), kRounds * 10'000);
  }).join();
}

}  // namespace
}  // namespace farwrite::core
