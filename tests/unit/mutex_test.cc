#include "core/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <thread>

#include "device/mode_lock.h"

namespace farwrite::core {
namespace {

#ifdef FARWRITE_CHECK_LOCK_ORDER

class MutexDeathTest : public ::testing::Test {
 protected:
  MutexDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  Mutex first_{LockRank::kDevice};
  Mutex last_{LockRank::kEventLoop};
};

TEST_F(MutexDeathTest, AbortsAndNamesBothWhenTheOrderIsBroken) {
  const Lock last(last_);
  EXPECT_DEATH(first_.lock(), "holds the mutex \"event loop\" locks \"device\"");
}

TEST_F(MutexDeathTest, AbortsWhenTwoOfOneRankAreTaken) {
  const Lock last(last_);
  Mutex other(LockRank::kEventLoop);
  EXPECT_DEATH(other.lock(), "\"event loop\" locks \"event loop\"");
}

TEST_F(MutexDeathTest, ChecksWhoTries) {
  const Lock last(last_);
  EXPECT_DEATH((void)first_.try_lock(), "lock order");
}

TEST_F(MutexDeathTest, ChecksReadersOfSharedMutexes) {
  SharedMutex shared(LockRank::kSegmentKeys);
  const Lock last(last_);
  EXPECT_DEATH(shared.lock_shared(), "\"event loop\" locks \"segment keys\"");
}

TEST_F(MutexDeathTest, RemembersWhatIsStillHeldInWhateverOrderLocksAreReleased) {
  Lock first(first_);
  const Lock last(last_);
  first.unlock();
  EXPECT_DEATH(first_.lock(), "\"event loop\" locks \"device\"");
}

TEST_F(MutexDeathTest, ChecksAWaitWithADeadline) {
  device::ModeLock mode;
  const Lock last(last_);
  EXPECT_DEATH((void)mode.lock_until(Deadline::after({})),
               "\"event loop\" locks \"notification mode\"");
}

TEST_F(MutexDeathTest, ChecksWhatAWaitTakesAgain) {
  CondVar changed;
  const Lock first(first_);
  changed.wait_for(first_, std::chrono::milliseconds(1));
  Mutex other(LockRank::kDevice);
  EXPECT_DEATH(other.lock(), "\"device\" locks \"device\"");
}

#else

TEST(Mutex, IsAsLargeAsTheLibrarysInBuildsThatDoNotCheck) {
  static_assert(sizeof(Mutex) == sizeof(std::mutex));
  static_assert(sizeof(SharedMutex) == sizeof(std::shared_mutex));
  static_assert(sizeof(CondVar) == sizeof(std::condition_variable));
}

#endif

TEST(Mutex, MayBeTakenInOrderAndAgain) {
  Mutex first(LockRank::kDevice);
  Mutex last(LockRank::kEventLoop);
  for (int round = 0; round < 2; ++round) {
    const Lock outer(first);
    const Lock inner(last);
  }
  EXPECT_TRUE(first.try_lock());
  first.unlock();
}

TEST(Mutex, MayNestWhereUserCodeRuns) {
  device::ModeLock outer;
  device::ModeLock inner;
  outer.lock_shared();
  EXPECT_TRUE(inner.lock_until(Deadline::after({})));
  inner.unlock();
  inner.lock_shared();
  Mutex first(LockRank::kDevice);
  EXPECT_TRUE(first.try_lock());
  first.unlock();
  inner.unlock_shared();
  outer.unlock_shared();
}

TEST(Mutex, MayBeTakenUntilADeadline) {
  Mutex mutex(LockRank::kDevice);
  EXPECT_TRUE(lock_until(mutex, Deadline::after({})));
  std::thread([&] { EXPECT_FALSE(lock_until(mutex, Deadline::after({}))); }).join();
  mutex.unlock();
  Mutex last(LockRank::kEventLoop);
  const Lock lock(last);  // nothing before it is held any more
}

TEST(Mutex, IsReleasedBetweenUnlockAndLock) {
  Mutex mutex;
  Lock lock(mutex);
  const auto others_may = [&] {
    bool may = false;
    std::thread([&] {
      may = mutex.try_lock();
      if (may) mutex.unlock();
    }).join();
    return may;
  };
  EXPECT_FALSE(others_may());
  lock.unlock();
  EXPECT_TRUE(others_may());
  lock.lock();
  EXPECT_FALSE(others_may());
  {
    const Unlock unlocked(mutex);
    EXPECT_TRUE(others_may());
  }
  EXPECT_FALSE(others_may());
}

TEST(SharedMutex, LetsReadersInTogetherAndAWriterAlone) {
  SharedMutex mutex;
  const auto another_reads = [&] {
    bool read = false;
    std::thread reader([&] {
      const ReaderLock lock(mutex);
      read = true;
    });
    reader.join();
    return read;
  };
  {
    const ReaderLock lock(mutex);
    EXPECT_TRUE(another_reads());
  }
  bool written = false;
  std::thread reader;
  {
    const WriterLock lock(mutex);
    reader = std::thread([&] {
      const ReaderLock lock(mutex);
      EXPECT_TRUE(written);
    });
    written = true;
  }
  reader.join();
}

TEST(CondVar, ReleasesTheMutexDuringAWait) {
  Mutex mutex(LockRank::kDevice);
  CondVar changed;
  bool done = false;
  Lock lock(mutex);
  std::thread other([&] {
    {
      const Lock theirs(mutex);
      done = true;
    }
    changed.notify_one();
  });
  changed.wait(mutex, [&] { return done; });
  EXPECT_FALSE(changed.wait_for(mutex, std::chrono::nanoseconds(1), [] { return false; }));
  EXPECT_TRUE(changed.wait_for(mutex, std::chrono::nanoseconds(1), [&] { return done; }));
  lock.unlock();
  other.join();
}

}  // namespace
}  // namespace farwrite::core
