#include "memory/room.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <thread>

#include "base/work_queue.h"

namespace farwrite::plugin {
namespace {

constexpr std::chrono::seconds kHangGuard(60);

// Whether so many have run when work that was submitted now, for in 100 ms, runs: half of the time
// after which a waiter looks again in any case.
bool run_soon(const std::atomic<int>& ran, int expected) {
  std::promise<bool> later;
  WorkQueue::of_process().submit_later(std::chrono::milliseconds(100),
                                       [&] { later.set_value(ran.load() == expected); });
  std::future<bool> soon = later.get_future();
  return soon.wait_for(kHangGuard) == std::future_status::ready && soon.get();
}

// Each test starts with a room in which no other test's timer runs.
class RoomOf : public ::testing::Test {
 protected:
  RoomOf() { std::this_thread::sleep_for(std::chrono::milliseconds(250)); }
  Room& room_ = Room::of_process();
  std::atomic<int> ran_{0};
};

TEST_F(RoomOf, WakesAWaiterOnceWhenSomethingComesBack) {
  room_.wait(Room::returns(), [this] { ++ran_; });
  Room::came_back();
  EXPECT_TRUE(run_soon(ran_, 1));
  Room::came_back();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(ran_.load(), 1);
}

TEST_F(RoomOf, WakesAWaiterForWhatCameBackAfterItsTry) {
  const std::uint64_t before = Room::returns();
  Room::came_back();
  EXPECT_EQ(Room::returns(), before + 1);
  room_.wait(before, [this] { ++ran_; });
  EXPECT_TRUE(run_soon(ran_, 1));
}

TEST_F(RoomOf, WakesAllThatWait) {
  for (int i = 0; i < 50; ++i) room_.wait(Room::returns(), [this] { ++ran_; });
  Room::came_back();
  EXPECT_TRUE(run_soon(ran_, 50));
}

TEST_F(RoomOf, LetsAWaiterLookAgainThoughNothingComesBack) {
  for (int times = 0; times < 2; ++times) {
    std::promise<void> again;
    room_.wait(Room::returns(), [&] { again.set_value(); });
    EXPECT_EQ(again.get_future().wait_for(kHangGuard), std::future_status::ready);
  }
}

TEST_F(RoomOf, IsAnotherOneInAForkedChild) {
  room_.wait(Room::returns(), [this] { ++ran_; });
  const pid_t child = ::fork();
  if (child == 0) {
    Room::came_back();  // for what waits in the parent alone
    ::_exit(&Room::of_process() == &room_ ? 1 : 0);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  Room::came_back();
  EXPECT_TRUE(run_soon(ran_, 1));
}

}  // namespace
}  // namespace farwrite::plugin
