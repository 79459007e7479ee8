#include "core/mutex.h"

#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <thread>

#include "device/mode_lock.h"

namespace farwrite::core {
namespace {

#ifdef FARWRITE_CHECK_LOCK_ORDER

class MutexDeathTest : public ::testing::Test {
 protected:
  MutexDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
  Mutex first_{LockRank::kDevice};
  Mutex last_{LockRank::kCore};
};

TEST_F(MutexDeathTest, AbortsAndNamesBothWhenTheOrderIsBroken) {
  const auto place = [](int line, const std::string& rank) {
    return "tests/unit/mutex_test.cc:" + std::to_string(line) + " \\(" + rank + "\\)";
  };
  const int line = __LINE__;
  Mutex first(LockRank::kBox, 2);
  Mutex last(LockRank::kCore);
  const Lock lock(last);
  EXPECT_DEATH(first.lock(), "holds the mutex of " + place(line + 2, "core, level 0") +
                                 " locks that of " + place(line + 1, "box, level 2"));
}

TEST_F(MutexDeathTest, AbortsWhenTwoOfOneRankAreTaken) {
  const Lock last(last_);
  Mutex other(LockRank::kCore);
  EXPECT_DEATH(other.lock(), "\\(core, level 0\\) locks .* \\(core, level 0\\)");
}

TEST_F(MutexDeathTest, AbortsWhenAHigherLevelOfOneRankIsTaken) {
  Mutex outer(LockRank::kCore, 1);
  const Lock last(last_);
  EXPECT_DEATH(outer.lock(), "\\(core, level 0\\) locks .* \\(core, level 1\\)");
}

TEST_F(MutexDeathTest, AbortsWhenOneIsTakenTwice) {
  const Lock last(last_);
  EXPECT_DEATH(last_.lock(), "lock order");
}

TEST_F(MutexDeathTest, AbortsWhenTheHigherAddressIsTakenFirst) {
  struct Pair {
    Mutex low{LockRank::kBox, 1, Siblings::kByAddress};
    Mutex high{LockRank::kBox, 1, Siblings::kByAddress};
  } pair;
  const Lock lock(pair.high);
  EXPECT_DEATH(pair.low.lock(), "\\(box, level 1\\) locks .* \\(box, level 1\\)");
}

TEST_F(MutexDeathTest, ChecksWhoTries) {
  const Lock last(last_);
  EXPECT_DEATH((void)first_.try_lock(), "lock order");
}

TEST_F(MutexDeathTest, ChecksReadersOfSharedMutexes) {
  SharedMutex shared(LockRank::kDeviceTables);
  const Lock last(last_);
  EXPECT_DEATH(shared.lock_shared(), "\\(core, .* \\(device tables, ");
}

TEST_F(MutexDeathTest, RemembersWhatIsStillHeldInWhateverOrderLocksAreReleased) {
  Lock first(first_);
  const Lock last(last_);
  first.unlock();
  EXPECT_DEATH(first_.lock(), "\\(core, .* \\(device, ");
}

TEST_F(MutexDeathTest, ChecksAWaitWithADeadline) {
  device::ModeLock mode;
  const Lock last(last_);
  EXPECT_DEATH((void)mode.lock_until(Deadline::after({})), "\\(core, .* \\(user code, ");
}

TEST_F(MutexDeathTest, ChecksWhatAWaitTakesAgain) {
  CondVar changed;
  const Lock first(first_);
  changed.wait_for(first_, std::chrono::milliseconds(1));
  Mutex other(LockRank::kDevice);
  EXPECT_DEATH(other.lock(), "\\(device, .* \\(device, ");
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
  Mutex last(LockRank::kCore);
  for (int round = 0; round < 2; ++round) {
    const Lock outer(first);
    const Lock inner(last);
  }
  EXPECT_TRUE(first.try_lock());
  first.unlock();
}

TEST(Mutex, MayBeTakenFromLevelToLevel) {
  Mutex outer(LockRank::kBox, 2);
  Mutex middle(LockRank::kBox, 1);
  Mutex inner(LockRank::kBox);
  const Lock first(outer);
  const Lock second(middle);
  const Lock third(inner);
}

TEST(Mutex, MayBeTakenInTheOrderOfAddresses) {
  struct Pair {
    Mutex low{LockRank::kBox, 1, Siblings::kByAddress};
    Mutex high{LockRank::kBox, 1, Siblings::kByAddress};
  } pair;
  const Lock low(pair.low);
  const Lock high(pair.high);
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
  Mutex last(LockRank::kCore);
  const Lock lock(last);  // nothing before it is held any more
}

TEST(Mutex, IsReleasedBetweenUnlockAndLock) {
  Mutex mutex(LockRank::kDevice);
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
  SharedMutex mutex(LockRank::kDevice);
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
