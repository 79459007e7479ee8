#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <filesystem>
#include <memory>
#include <mutex>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "box/parallel_loop.h"

namespace farwrite::box {
namespace {

constexpr std::chrono::seconds kPatience(30);  // bounds a hang

// Lets all threads go once `expected` have come.
class Meeting {
 public:
  explicit Meeting(unsigned expected) : expected_(expected) {}
  // Whether all came.
  bool wait() {
    std::unique_lock<std::mutex> lock(mutex_);
    if (++come_ >= expected_) all_.notify_all();
    return all_.wait_for(lock, kPatience, [this] { return come_ >= expected_; });
  }

 private:
  const unsigned expected_;
  std::mutex mutex_;
  std::condition_variable all_;
  unsigned come_ = 0;
};

class ParallelLoopOf : public ::testing::TestWithParam<unsigned> {};

TEST_P(ParallelLoopOf, RunsEachPartOnce) {
  ParallelLoop loop(GetParam());
  EXPECT_EQ(loop.threads(), GetParam());
  for (const std::size_t parts : {0, 1, 2, 3, 17, 1000}) {
    std::vector<std::atomic<int>> runs(parts);
    loop.run(parts, [&](std::size_t part) { runs.at(part).fetch_add(1); });
    for (std::size_t part = 0; part < parts; ++part) {
      ASSERT_EQ(runs[part].load(), 1) << "part " << part << " of " << parts;
    }
  }
}

// Plain integers: a missing order between a helper's write and the return is a race that the
// thread sanitizer finds.
TEST_P(ParallelLoopOf, ShowsTheCallerWhatThePartsWrote) {
  ParallelLoop loop(GetParam());
  for (int round = 1; round <= 200; ++round) {
    std::vector<int> written(8, 0);
    loop.run(written.size(), [&](std::size_t part) { written[part] = round; });
    ASSERT_EQ(std::accumulate(written.begin(), written.end(), 0), 8 * round);
  }
}

TEST_P(ParallelLoopOf, ServesManyCallersAtTheSameTime) {
  ParallelLoop loop(GetParam());
  constexpr std::size_t kCallers = 4;
  constexpr std::size_t kRounds = 100;
  std::vector<std::vector<int>> counts(kCallers, std::vector<int>(7, 0));
  std::vector<std::thread> callers;
  for (std::size_t caller = 0; caller < kCallers; ++caller) {
    callers.emplace_back([&loop, &mine = counts[caller]] {
      for (std::size_t round = 0; round < kRounds; ++round) {
        loop.run(mine.size(), [&mine](std::size_t part) { ++mine[part]; });
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(counts, std::vector<std::vector<int>>(kCallers, std::vector<int>(7, kRounds)));
}

TEST_P(ParallelLoopOf, RunsALoopInsideAPart) {
  ParallelLoop loop(GetParam());
  std::vector<std::atomic<int>> runs(4 * 5);
  loop.run(4, [&](std::size_t outer) {
    loop.run(5, [&](std::size_t inner) { runs[outer * 5 + inner].fetch_add(1); });
  });
  for (const std::atomic<int>& count : runs) EXPECT_EQ(count.load(), 1);
}

INSTANTIATE_TEST_SUITE_P(Threads, ParallelLoopOf, ::testing::Values(1, 2, 3, 8),
                         [](const auto& tested) { return std::to_string(tested.param); });

TEST(ParallelLoop, SpreadsPartsOverAllItsThreads) {
  ParallelLoop loop(3);
  Meeting meeting(3);
  std::atomic<int> met{0};
  loop.run(3, [&](std::size_t) { met += meeting.wait() ? 1 : 0; });
  EXPECT_EQ(met.load(), 3);
}

TEST(ParallelLoop, NeverWaitsForABusyHelper) {
  ParallelLoop loop(2);
  Meeting both(2);
  Meeting all_done(3);
  // The only helper and this caller are each held in a part until another loop has been run.
  std::thread holder([&] {
    loop.run(2, [&](std::size_t) {
      EXPECT_TRUE(both.wait());
      EXPECT_TRUE(all_done.wait());
    });
  });
  EXPECT_TRUE([&] {
    std::atomic<int> runs{0};
    loop.run(5, [&](std::size_t) { ++runs; });
    return runs.load() == 5;
  }());
  EXPECT_TRUE(all_done.wait());
  holder.join();
}

TEST(ParallelLoop, LeavesSignalsToTheApplicationsThreads) {
  ParallelLoop loop(2);
  Meeting meeting(2);
  const std::thread::id caller = std::this_thread::get_id();
  bool checked = false;
  loop.run(2, [&](std::size_t) {
    EXPECT_TRUE(meeting.wait());
    if (std::this_thread::get_id() == caller) return;
    sigset_t blocked;
    ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &blocked), 0);
    EXPECT_EQ(sigismember(&blocked, SIGINT), 1);
    EXPECT_EQ(sigismember(&blocked, SIGSEGV), 0);
    checked = true;
  });
  EXPECT_TRUE(checked);
}

TEST(ParallelLoop, EndsItsThreadsWhenDestroyed) {
  const auto threads_now = [] {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
      names.insert(entry.path().filename());
    }
    return names;
  };
  const std::set<std::string> before = threads_now();
  {
    const ParallelLoop loop(4);
    EXPECT_EQ(threads_now().size(), before.size() + 3);
  }
  EXPECT_EQ(threads_now(), before);
}

TEST(ParallelLoop, CanBeUsedAndDestroyedInAForkedChild) {
  auto loop = std::make_unique<ParallelLoop>(3);
  loop->run(8, [](std::size_t) {});
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(30);  // a hang ends as a failure
    int runs = 0;
    loop->run(8, [&](std::size_t) { ++runs; });
    loop.reset();
    ::_exit(runs == 8 ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::atomic<int> runs{0};
  loop->run(8, [&](std::size_t) { ++runs; });
  EXPECT_EQ(runs.load(), 8);
}

}  // namespace
}  // namespace farwrite::box
