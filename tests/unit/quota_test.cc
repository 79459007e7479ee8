#include "memory/quota.h"

#include <gtest/gtest.h>

#include <limits>
#include <thread>
#include <vector>

namespace farwrite::memory {
namespace {

TEST(Quota, AcceptsUpToItsLimitAndCountsRefusals) {
  Quota quota("receive", 100);
  EXPECT_TRUE(quota.try_charge(60));
  EXPECT_FALSE(quota.try_charge(41));
  EXPECT_TRUE(quota.try_charge(40));
  EXPECT_EQ(quota.in_use(), 100U);
  EXPECT_EQ(quota.refusals(), 1U);
  EXPECT_EQ(quota.name(), "receive");
  EXPECT_EQ(quota.limit(), 100U);
}

TEST(Quota, RemembersThePeakAfterARelease) {
  Quota quota("send", 100);
  ASSERT_TRUE(quota.try_charge(70));
  quota.release(70);
  ASSERT_TRUE(quota.try_charge(10));
  EXPECT_EQ(quota.in_use(), 10U);
  EXPECT_EQ(quota.peak(), 70U);
}

TEST(Quota, RefusesAnOverflowingCharge) {
  Quota quota("send", 100);
  ASSERT_TRUE(quota.try_charge(50));
  EXPECT_FALSE(quota.try_charge(std::numeric_limits<std::uint64_t>::max() - 10));
  EXPECT_FALSE(quota.fits(std::numeric_limits<std::uint64_t>::max()));
  EXPECT_TRUE(quota.fits(50));
  EXPECT_EQ(quota.in_use(), 50U);
}

TEST(Quota, NeverExceedsItsLimitUnderManyThreads) {
  Quota quota("shared", 10);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&quota] {
      for (int turn = 0; turn < 20000; ++turn) {
        if (quota.try_charge(4)) quota.release(4);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(quota.in_use(), 0U);
  EXPECT_GE(quota.peak(), 4U);
  EXPECT_LE(quota.peak(), 8U);
}

}  // namespace
}  // namespace farwrite::memory
