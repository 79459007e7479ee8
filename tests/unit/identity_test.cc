#include "device/identity.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

namespace farwrite::device {
namespace {

TEST(Identity, StaysWithTheEndpoint) {
  EXPECT_EQ(uuid_of({"127.0.0.1", 7777}), uuid_of({"127.0.0.1", 7777}));
  EXPECT_NE(uuid_of({"127.0.0.1", 7777}), uuid_of({"127.0.0.1", 7778}));
  EXPECT_NE(uuid_of({"127.0.0.1", 7777}), uuid_of({"127.0.0.2", 7777}));
  EXPECT_NE(uuid_of({"127.0.0.1", 7777}), DeviceUuid{});
}

TEST(Identity, HasAnotherEpochAtEveryStart) {
  constexpr int kThreads = 4;
  constexpr int kStarts = 5000;
  std::mutex mutex;
  std::set<std::uint64_t> all;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      std::vector<std::uint64_t> mine;
      for (int start = 0; start < kStarts; ++start) mine.push_back(next_epoch());
      EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
      const std::lock_guard<std::mutex> lock(mutex);
      all.insert(mine.begin(), mine.end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(all.size(), std::size_t{kThreads} * kStarts);
  EXPECT_GT(next_epoch(), *all.rbegin());
}

}  // namespace
}  // namespace farwrite::device
