#include "core/gate.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

namespace farwrite::core {
namespace {

TEST(Gate, LetsEverybodyThroughUntilItIsClosed) {
  Gate gate;
  {
    const Gate::Pass first(gate);
    const Gate::Pass second(gate);
    EXPECT_TRUE(first && second);
  }
  EXPECT_FALSE(gate.closed());
  gate.close();
  EXPECT_TRUE(gate.closed());
  EXPECT_FALSE(Gate::Pass(gate));
  EXPECT_TRUE(gate.wait_until_empty(Deadline::after({})));
}

TEST(Gate, WaitsNoLongerThanItsDeadline) {
  Gate gate;
  std::optional<Gate::Pass> inside;
  inside.emplace(gate);
  gate.close();
  EXPECT_FALSE(gate.wait_until_empty(Deadline::after(std::chrono::milliseconds(5))));
  inside.reset();
  EXPECT_TRUE(gate.wait_until_empty(Deadline::after({})));
}

TEST(Gate, WaitsForThoseInside) {
  Gate gate;
  std::optional<Gate::Pass> inside;
  inside.emplace(gate);
  gate.close();
  std::atomic<bool> empty{false};
  std::thread waiter([&] {
    EXPECT_TRUE(gate.wait_until_empty(Deadline::never()));
    empty.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(empty.load());
  EXPECT_FALSE(Gate::Pass(gate));  // comes and goes without ending the wait
  EXPECT_FALSE(empty.load());
  inside.reset();
  waiter.join();
  EXPECT_TRUE(empty.load());
}

TEST(Gate, NeverLetsAnOperationOverlapWhatFollowsTheWait) {
  for (int round = 0; round < 200; ++round) {
    Gate gate;
    std::atomic<bool> torn_down{false};
    std::atomic<bool> overlapped{false};
    std::vector<std::thread> users;
    for (int i = 0; i < 3; ++i) {
      users.emplace_back([&] {
        while (true) {
          const Gate::Pass pass(gate);
          if (!pass) return;
          if (torn_down.load()) overlapped.store(true);
        }
      });
    }
    gate.close();
    EXPECT_TRUE(gate.wait_until_empty(Deadline::never()));
    torn_down.store(true);
    for (std::thread& user : users) user.join();
    ASSERT_FALSE(overlapped.load());
  }
}

}  // namespace
}  // namespace farwrite::core
