// Which thread takes the leases that come back.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

class LeaseReturns : public ConformancePair {
 protected:
  void SetUp() override {
    ConformancePair::SetUp();
    memory_ = near_device_.allocate_raw(kBytes);
    ASSERT_NE(memory_, nullptr);
    std::memset(memory_, 1, kBytes);
  }
  void TearDown() override {
    EXPECT_OK(near_device_.close(kHang));
    EXPECT_OK(far_device_.close(kHang));
    near_device_.free_raw(memory_);
  }

  // The far end takes a lease and returns it at once.
  void lease_and_return() {
    const Completion lent = near_.lend({"hello", 5}, {memory_, kBytes}, [this] {
      taker_.store(std::this_thread::get_id());
      ++returned_;
    });
    ASSERT_OK(lent.wait(kHang));
    ASSERT_OK(far_.wait_notification(kHang));
  }

  static constexpr std::size_t kBytes = 100;
  std::byte* memory_ = nullptr;
  std::atomic<std::uint32_t> returned_{0};
  std::atomic<std::thread::id> taker_{};
};

TEST_P(LeaseReturns, AThreadThatWaitsTakesThemWhereItWasToldTo) {
  near_.take_returns(true);
  // At first the poller may be at the lane.
  EXPECT_TRUE(eventually([&] {
    const std::uint32_t before = returned_.load();
    lease_and_return();
    EXPECT_TRUE(eventually([&] {
      (void)near_.wait_notification(std::chrono::milliseconds(1));
      return returned_.load() > before;
    }));
    // Elsewhere pollers may have to.
    return taker_.load() == std::this_thread::get_id() || near_.peer().fabric != FabricKind::kShm;
  }));
}

TEST_P(LeaseReturns, AThreadThatSleepsIsWokenForThem) {
  near_.take_returns(true);
  std::atomic<bool> stop{false};
  std::thread waits([&] {
    while (!stop.load()) (void)near_.wait_notification(std::chrono::milliseconds(500));
  });
  // A thread that is not woken leaves them to a tick. In the first round a poller may be woken.
  std::uint32_t rounds = 0;
  EXPECT_TRUE(eventually([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // or it may be awake
    const std::uint64_t rings = far_.stats().doorbells;
    lease_and_return();
    EXPECT_TRUE(eventually([&] { return returned_.load() == rounds + 1; }));
    const bool rang = far_.stats().doorbells > rings && rounds > 0;
    ++rounds;
    return rang || near_.peer().fabric != FabricKind::kShm;
  }));
  stop.store(true);
  waits.join();
}

TEST_P(LeaseReturns, PollersTakeThemAgainAfterwards) {
  near_.take_returns(true);
  lease_and_return();  // no thread waits
  near_.take_returns(false);
  EXPECT_TRUE(eventually([&] { return returned_.load() == 1; }));
  lease_and_return();
  EXPECT_TRUE(eventually([&] { return returned_.load() == 2; }));
}

TEST_P(LeaseReturns, ThoseBeforeANotificationAreTakenWithIt) {
  near_.take_returns(true);
  // The poller or a tick may be at the lane. Elsewhere pollers may have to take them.
  std::uint32_t taken_with_it = 0;
  EXPECT_TRUE(eventually([&] {
    for (int i = 0; i < 20; ++i) {
      const std::uint32_t before = returned_.load();
      lease_and_return();
      EXPECT_OK(far_.notify(7).wait(kHang));
      EXPECT_OK(near_.wait_notification(kHang));
      if (returned_.load() > before) ++taken_with_it;
      EXPECT_TRUE(eventually([&] {
        (void)near_.wait_notification(std::chrono::milliseconds(1));
        return returned_.load() > before;
      }));
    }
    return taken_with_it > 50 || near_.peer().fabric != FabricKind::kShm;
  }));
}

TEST_P(LeaseReturns, AThreadThatDrivesTakesThemAndWakesNoPoller) {
  const bool shm = near_.peer().fabric == FabricKind::kShm;
  std::atomic<std::uint32_t> given_back{0};
  std::thread far([&] {
    while (true) {
      auto taken = far_.wait_notification(kHang);
      if (!taken.ok() || !taken->lent.valid()) break;
      taken->lent = RemoteRegion();
      ++given_back;
      EXPECT_OK(far_.notify(1).wait(kHang));
    }
  });
  // At first the poller may be at the lane.
  EXPECT_TRUE(eventually([&] {
    const std::uint32_t before = returned_.load();
    const std::uint64_t rings = far_.stats().doorbells;
    bool answered = false, quiet = false;
    near_.drive(
        [&] {
          EXPECT_OK(near_
                        .lend({"hello", 5}, {memory_, kBytes},
                              [this] {
                                taker_.store(std::this_thread::get_id());
                                ++returned_;
                              })
                        .wait(kHang));
          // It is there before this thread looks, and long before it could sleep.
          EXPECT_TRUE(eventually([&] { return given_back.load() > before; }));
          quiet = far_.stats().doorbells == rings;
        },
        [&] { return answered; }, [&](const Notification&) { answered = true; },
        core::Deadline::after(kHang));
    EXPECT_TRUE(answered);
    EXPECT_TRUE(eventually([&] { return returned_.load() > before; }));
    return (quiet && taker_.load() == std::this_thread::get_id()) || !shm;
  }));
  EXPECT_OK(near_.notify(0).wait(kHang));
  far.join();
  // The poller, once it sleeps, is woken again.
  EXPECT_TRUE(eventually([&] {
    const std::uint32_t before = returned_.load();
    const std::uint64_t rings = far_.stats().doorbells;
    lease_and_return();
    EXPECT_TRUE(eventually([&] { return returned_.load() > before; }));
    return far_.stats().doorbells > rings || !shm;
  }));
}

TEST_P(LeaseReturns, AThreadThatDrivesAndSleepsLeavesThemToThePoller) {
  bool rang = false;
  EXPECT_TRUE(eventually([&] {
    std::atomic<bool> answered{false};
    std::thread far;
    const std::uint32_t before = returned_.load();
    near_.drive(
        [&] {
          EXPECT_OK(
              near_.lend({"hello", 5}, {memory_, kBytes}, [this] { ++returned_; }).wait(kHang));
          far = std::thread([&] {
            auto taken = far_.wait_notification(kHang);
            ASSERT_OK(taken);
            std::this_thread::sleep_for(std::chrono::milliseconds(20));  // or it may be awake
            const std::uint64_t rings = far_.stats().doorbells;
            taken->lent = RemoteRegion();
            EXPECT_TRUE(eventually([&] { return returned_.load() > before; }));
            rang = far_.stats().doorbells > rings;
            EXPECT_OK(far_.notify(1).wait(kHang));
          });
        },
        [&] { return answered.load(); }, [&](const Notification&) { answered.store(true); },
        core::Deadline::after(kHang));
    far.join();
    EXPECT_TRUE(answered.load());
    return rang || near_.peer().fabric != FabricKind::kShm;
  }));
}

TEST_P(LeaseReturns, ATickTakesThemWhereTheThreadIsBusy) {
  near_.take_returns(true);
  for (std::uint32_t i = 1; i <= 3; ++i) {
    lease_and_return();  // no thread waits
    EXPECT_TRUE(eventually([&] { return returned_.load() == i; }));
  }
}

TEST_P(LeaseReturns, AnyThreadMayTakeThem) {
  near_.take_returns(true);
  // The poller or a tick may take it first.
  EXPECT_TRUE(eventually([&] {
    const std::uint32_t before = returned_.load();
    lease_and_return();
    near_.take_waiting_returns();
    EXPECT_TRUE(eventually([&] { return returned_.load() > before; }));
    return taker_.load() == std::this_thread::get_id() || near_.peer().fabric != FabricKind::kShm;
  }));
}

TEST_P(LeaseReturns, AClosingChannelStillGetsThem) {
  near_.take_returns(true);
  lease_and_return();  // no thread waits
  ASSERT_OK(near_.close(kHang));
  near_.take_returns(true);
  EXPECT_TRUE(eventually([&] { return returned_.load() == 1; }));
}

TEST_P(LeaseReturns, ThePeersEndBringsThemInAnyCase) {
  near_.take_returns(true);
  lease_and_return();
  ASSERT_OK(far_.close(kHang));
  EXPECT_TRUE(eventually([&] { return returned_.load() == 1; }));
}

FARWRITE_EVERY_FABRIC_INSIDE(LeaseReturns);

}  // namespace
}  // namespace farwrite
