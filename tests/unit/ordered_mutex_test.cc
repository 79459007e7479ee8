#include "core/ordered_mutex.h"

#include <gtest/gtest.h>

#include <mutex>
#include <shared_mutex>
#include <thread>
#include <type_traits>

namespace farwrite::core {
namespace {

using First = OrderedMutex<LockRank::kDevice>;
using Last = OrderedMutex<LockRank::kEventLoop>;

struct PatientMutex : std::mutex {
  bool lock_until(int /*deadline*/) { return try_lock(); }
};

#ifdef FARWRITE_CHECK_LOCK_ORDER

class OrderedMutexDeathTest : public ::testing::Test {
 protected:
  OrderedMutexDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  First first_;
  Last last_;
};

TEST_F(OrderedMutexDeathTest, AbortsAndNamesBothWhenTheOrderIsBroken) {
  const std::lock_guard last(last_);
  EXPECT_DEATH(first_.lock(), "holds the mutex \"event loop\" locks \"device\"");
}

TEST_F(OrderedMutexDeathTest, AbortsWhenTwoOfOneRankAreTaken) {
  const std::lock_guard last(last_);
  Last other;
  EXPECT_DEATH(other.lock(), "\"event loop\" locks \"event loop\"");
}

TEST_F(OrderedMutexDeathTest, ChecksWhoTries) {
  const std::lock_guard last(last_);
  EXPECT_DEATH((void)first_.try_lock(), "lock order");
}

TEST_F(OrderedMutexDeathTest, ChecksReadersOfSharedMutexes) {
  OrderedMutex<LockRank::kSegmentKeys, std::shared_mutex> shared;
  const std::lock_guard last(last_);
  EXPECT_DEATH(shared.lock_shared(), "\"event loop\" locks \"segment keys\"");
}

TEST_F(OrderedMutexDeathTest, RemembersWhatIsStillHeldInWhateverOrderLocksAreReleased) {
  std::unique_lock first(first_);
  const std::unique_lock last(last_);
  first.unlock();
  EXPECT_DEATH(first_.lock(), "\"event loop\" locks \"device\"");
}

TEST_F(OrderedMutexDeathTest, ChecksAWaitWithADeadline) {
  OrderedMutex<LockRank::kDevice, PatientMutex> patient;
  const std::lock_guard last(last_);
  EXPECT_DEATH((void)patient.lock_until(0), "\"event loop\" locks \"device\"");
}

#else

TEST(OrderedMutex, IsAPlainMutexInBuildsThatDoNotCheck) {
  static_assert(std::is_same_v<First, std::mutex>);
  static_assert(
      std::is_same_v<OrderedMutex<LockRank::kSegmentKeys, std::shared_mutex>, std::shared_mutex>);
  static_assert(std::is_same_v<OrderedCondition, std::condition_variable>);
}

#endif

TEST(OrderedMutex, MayBeTakenInOrderAndAgain) {
  First first;
  Last last;
  for (int round = 0; round < 2; ++round) {
    const std::lock_guard outer(first);
    const std::lock_guard inner(last);
  }
  EXPECT_TRUE(first.try_lock());
  first.unlock();
}

TEST(OrderedMutex, MayNestWhereUserCodeRuns) {
  OrderedMutex<LockRank::kNotificationMode, std::shared_mutex> outer;
  OrderedMutex<LockRank::kNotificationMode, std::shared_mutex> inner;
  const std::shared_lock waits(outer);
  EXPECT_TRUE(inner.try_lock());
  inner.unlock();
  First first;
  const std::shared_lock waits_again(inner);
  EXPECT_TRUE(first.try_lock());
  first.unlock();
}

TEST(OrderedMutex, MayBeTakenUntilADeadline) {
  OrderedMutex<LockRank::kDevice, PatientMutex> patient;
  EXPECT_TRUE(patient.lock_until(0));
  std::thread([&] { EXPECT_FALSE(patient.lock_until(0)); }).join();
  patient.unlock();
  Last last;
  const std::lock_guard lock(last);  // nothing before it is held any more
}

TEST(OrderedMutex, IsReleasedDuringAWait) {
  First mutex;
  OrderedCondition changed;
  bool done = false;
  std::unique_lock lock(mutex);
  std::thread other([&] {
    {
      const std::lock_guard theirs(mutex);
      done = true;
    }
    changed.notify_one();
  });
  changed.wait(lock, [&] { return done; });
  EXPECT_TRUE(lock.owns_lock());
  lock.unlock();
  other.join();
}

}  // namespace
}  // namespace farwrite::core
