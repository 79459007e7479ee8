#include "base/work_queue.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include "no_more_threads.h"

namespace farwrite::plugin {
namespace {

constexpr int kThreads = 4;  // as work_queue.cc has it
constexpr std::chrono::seconds kHangGuard(60);

WorkQueue& queue() { return WorkQueue::of_process(); }

bool comes_true(const std::atomic<int>& count, int expected) {
  const auto end = std::chrono::steady_clock::now() + kHangGuard;
  while (count != expected) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(WorkQueue, RunsAllThatManyThreadsSubmit) {
  constexpr int kSubmitters = 4;
  constexpr int kEach = 5000;
  std::atomic<int> ran{0};
  std::vector<std::thread> submitters;
  for (int i = 0; i < kSubmitters; ++i) {
    submitters.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) queue().submit([&] { ++ran; });
    });
  }
  for (std::thread& submitter : submitters) submitter.join();
  EXPECT_TRUE(comes_true(ran, kSubmitters * kEach));
}

// A step's kernel may wait for a tensor that another item brings: whatever is queued runs while any
// thread is free, also behind items that take long.
TEST(WorkQueue, LeavesNothingLyingWhileAThreadIsFree) {
  for (int round = 1; round <= 300; ++round) {
    std::promise<void> last;
    const std::shared_future<void> awaited = last.get_future().share();
    std::atomic<int> done{0};
    for (int i = 0; i < kThreads - 1; ++i) {
      queue().submit([&done, awaited] {
        awaited.wait();
        ++done;
      });
    }
    queue().submit([&] {
      last.set_value();
      ++done;
    });
    ASSERT_TRUE(comes_true(done, kThreads)) << "in round " << round;
  }
}

TEST(WorkQueue, RunsWhatIsToComeLaterInTheOrderOfTime) {
  const auto both = std::make_shared<std::promise<void>>();
  const auto order = std::make_shared<std::vector<int>>();  // one thread runs these
  const auto run = [order, both](int which) {
    order->push_back(which);
    if (order->size() == 2) both->set_value();
  };
  queue().submit_after(std::chrono::milliseconds(500), [run] { run(2); });
  queue().submit_after(std::chrono::milliseconds(1), [run] { run(1); });
  ASSERT_EQ(both->get_future().wait_for(kHangGuard), std::future_status::ready);
  EXPECT_EQ(*order, (std::vector<int>{1, 2}));
}

TEST(WorkQueue, WhoseThreadsAreRefusedSaysSoAndRunsAllOnceItHasThem) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::promise<void> ran;
    bool without = true;
    {
      const NoMoreThreads none;
      queue().submit([&ran] { ran.set_value(); });
      without = queue().start();
    }
    const bool with = queue().start();
    const bool runs = ran.get_future().wait_for(kHangGuard) == std::future_status::ready;
    ::_exit(!without && with && runs ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace farwrite::plugin
