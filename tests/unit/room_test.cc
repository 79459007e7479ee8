#include "memory/room.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <future>
#include <thread>

#include "base/work_queue.h"

namespace farwrite::plugin {
namespace {

constexpr std::chrono::seconds kHangGuard(60);

// Whether `again` has run when work that was submitted now, for in 100 ms, runs: half of the time
// after which a waiter looks again by itself.
bool runs_soon(const std::atomic<int>& ran) {
  std::promise<bool> later;
  WorkQueue::of_process().submit_later(std::chrono::milliseconds(100),
                                       [&] { later.set_value(ran.load() == 1); });
  std::future<bool> soon = later.get_future();
  return soon.wait_for(kHangGuard) == std::future_status::ready && soon.get();
}

TEST(Room, WakesAWaiterWhenSomethingComesBack) {
  Room& room = Room::of_process();
  std::atomic<int> ran{0};
  room.wait(room.returns(), [&] { ++ran; });
  room.came_back();
  EXPECT_TRUE(runs_soon(ran));
  room.came_back();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(ran.load(), 1);  // and not again, when its time is up
}

TEST(Room, WakesAWaiterForWhatCameBackAfterItsTry) {
  Room& room = Room::of_process();
  std::atomic<int> ran{0};
  const std::uint64_t before = room.returns();
  room.came_back();
  EXPECT_EQ(room.returns(), before + 1);
  room.wait(before, [&] { ++ran; });
  EXPECT_TRUE(runs_soon(ran));
}

TEST(Room, LetsAWaiterLookAgainThoughNothingComesBack) {
  std::promise<void> again;
  Room::of_process().wait(Room::of_process().returns(), [&] { again.set_value(); });
  EXPECT_EQ(again.get_future().wait_for(kHangGuard), std::future_status::ready);
}

// One may wait again, and a busy sender's memory comes back all the time.
TEST(Room, WakesAllThatWait) {
  Room& room = Room::of_process();
  constexpr int kWaiters = 50;
  std::atomic<int> tries{0};
  std::atomic<int> over{0};
  std::promise<void> all;
  std::function<void()> one = [&] {
    ++tries;
    if (tries.load() <= kWaiters) {
      room.wait(room.returns(), one);
    } else if (++over == kWaiters) {
      all.set_value();
    }
  };
  for (int i = 0; i < kWaiters; ++i) room.wait(room.returns(), one);
  std::future<void> ended = all.get_future();
  while (ended.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready &&
         tries.load() < 100 * kWaiters) {
    room.came_back();
  }
  EXPECT_EQ(ended.wait_for(kHangGuard), std::future_status::ready);
  EXPECT_EQ(tries.load(), 2 * kWaiters);
}

}  // namespace
}  // namespace farwrite::plugin
