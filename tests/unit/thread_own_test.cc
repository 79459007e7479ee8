#include "core/thread_own.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <thread>

namespace farwrite::core {
namespace {

struct Count {
  int value = 0;
};

TEST(ThreadOwn, IsTheSameInEachUseAndAnotherInEachThread) {
  thread_own<Count>().value = 1;
  EXPECT_EQ(thread_own<Count>().value, 1);
  int other = -1;
  std::thread([&other] { other = thread_own<Count>().value; }).join();
  EXPECT_EQ(other, 0);
  thread_own<Count>().value = 0;
}

TEST(ThreadOwnDeathTest, IsANewOneForTheHandlersOfTheProcessEnd) {
  const auto end = [] {
    thread_own<Count>().value = 1;
    std::atexit([] { std::_Exit(thread_own<Count>().value == 0 ? 7 : 8); });
    std::exit(0);
  };
  EXPECT_EXIT(end(), testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace farwrite::core
