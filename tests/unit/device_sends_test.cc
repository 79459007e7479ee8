#include "step/device_sends.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace farwrite::plugin {
namespace {

using Turns = std::vector<DeviceSends::TurnRef>;

Turns add(DeviceSends& sends, const std::string& edge, int count) {
  Turns turns;
  for (int i = 0; i < count; ++i) turns.push_back(sends.add(edge));
  return turns;
}

TEST(DeviceSends, PushesAnEdgesTensorsInTheOrderOfTheirSends) {
  DeviceSends sends;
  const Turns turns = add(sends, "edge", 3);
  std::vector<int> pushed;
  const auto copied = [&](std::size_t which) {
    sends.ready(turns[which], [&pushed, which] { pushed.push_back(static_cast<int>(which)); });
  };
  copied(2);
  copied(1);
  EXPECT_TRUE(pushed.empty());
  copied(0);
  EXPECT_EQ(pushed, (std::vector<int>{0, 1, 2}));
}

TEST(DeviceSends, LetsNoEdgeWaitForAnother) {
  DeviceSends sends;
  const DeviceSends::TurnRef slow = sends.add("slow");
  bool pushed = false;
  sends.ready(sends.add("fast"), [&pushed] { pushed = true; });
  EXPECT_TRUE(pushed);
}

TEST(DeviceSends, PushesNothingOfAStepThatIsOver) {
  DeviceSends sends;
  const Turns turns = add(sends, "edge", 2);
  const auto tensor = std::make_shared<int>(1);
  bool pushed = false;
  sends.ready(turns[1], [&pushed, tensor] { pushed = true; });
  EXPECT_EQ(tensor.use_count(), 2);
  sends.clear();
  EXPECT_EQ(tensor.use_count(), 1) << "what waited for its turn is dropped with the step";
  sends.ready(turns[0], [&pushed] { pushed = true; });
  EXPECT_FALSE(pushed);
  // The edge is free for the step's next life.
  sends.ready(sends.add("edge"), [&pushed] { pushed = true; });
  EXPECT_TRUE(pushed);
}

TEST(DeviceSends, LetsAPushEndTheStep) {
  DeviceSends sends;
  const Turns turns = add(sends, "edge", 2);
  int pushed = 0;
  sends.ready(turns[1], [&pushed] { ++pushed; });
  sends.ready(turns[0], [&] {
    ++pushed;
    sends.clear();
  });
  EXPECT_EQ(pushed, 1);
}

TEST(DeviceSends, LetsAPushMakeTheNextOneReady) {
  DeviceSends sends;
  const Turns turns = add(sends, "edge", 2);
  std::vector<int> pushed;
  sends.ready(turns[0], [&] {
    sends.ready(turns[1], [&pushed] { pushed.push_back(1); });
    pushed.push_back(0);
  });
  EXPECT_EQ(pushed, (std::vector<int>{0, 1}));
}

TEST(DeviceSends, KeepsTheOrderOfCopiesThatEndOnManyThreads) {
  constexpr int kThreads = 4;
  constexpr int kEach = 500;
  DeviceSends sends;
  const Turns turns = add(sends, "edge", kThreads * kEach);
  std::vector<int> order(turns.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int>(i);
  std::shuffle(order.begin(), order.end(), std::mt19937(20261126));
  std::vector<int> pushed;  // by one thread at a time, in order
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kEach; ++i) {
        const int which = order[static_cast<std::size_t>(thread * kEach + i)];
        sends.ready(turns[static_cast<std::size_t>(which)],
                    [&pushed, which] { pushed.push_back(which); });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_EQ(pushed.size(), turns.size());
  EXPECT_TRUE(std::is_sorted(pushed.begin(), pushed.end()));
}

}  // namespace
}  // namespace farwrite::plugin
