#include <gtest/gtest.h>

#include <thread>

#include "c_api/lend_end.h"

namespace farwrite::c_api {
namespace {

TEST(LendEnd, EitherTheCallFailsOrTheCallbackComes) {
  for (int round = 0; round < 2000; ++round) {
    int returned = 0;
    LendEnd lent([](void* context) { ++*static_cast<int*>(context); }, &returned);
    std::thread ends([&] { lent.end(); });
    const bool failed = lent.withdraw();
    ends.join();
    EXPECT_EQ(returned, failed ? 0 : 1);
  }
}

TEST(LendEnd, EndsOnceAndWithoutACallback) {
  int returned = 0;
  LendEnd lent([](void* context) { ++*static_cast<int*>(context); }, &returned);
  lent.end();
  lent.end();
  EXPECT_EQ(returned, 1);
  EXPECT_FALSE(lent.withdraw());
  LendEnd(nullptr, nullptr).end();
}

}  // namespace
}  // namespace farwrite::c_api
