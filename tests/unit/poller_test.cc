#include "device/poller.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <functional>

namespace farwrite::device {
namespace {

constexpr std::chrono::seconds kPollerHang(30);

bool eventually(const std::function<bool()>& holds) {
  const core::Deadline deadline = core::Deadline::after(kPollerHang);
  while (!holds()) {
    if (deadline.expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// A lane that a test rings.
class FakeLane : public PolledLane {
 public:
  bool wants_poller() const override { return wanted.load(); }
  fabric::Progress serve() override {
    serves.fetch_add(1);
    std::uint64_t rings = 0;
    const bool rung = ::read(doorbell.get(), &rings, sizeof(rings)) > 0;
    if (rung) delivered.fetch_add(1);
    if (on_serve) on_serve();
    return {rung ? std::size_t{1} : std::size_t{0}, pending.load()};
  }
  fabric::Doorbell arm() override {
    arms.fetch_add(1);
    return {doorbell.get(), false};
  }
  void ring() {
    constexpr std::uint64_t kOne = 1;
    EXPECT_EQ(::write(doorbell.get(), &kOne, sizeof(kOne)), 8);
  }

  std::atomic<bool> wanted{true};
  std::atomic<bool> pending{false};
  std::atomic<int> serves{0}, arms{0}, delivered{0};
  std::function<void()> on_serve;  // set before the lane is added
  core::UniqueFd doorbell{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

std::unique_ptr<Poller> start() { return *Poller::start(std::chrono::microseconds(20)); }

TEST(Poller, ServesALaneWhenItsDoorbellRings) {
  auto lane = std::make_shared<FakeLane>();
  const auto poller = start();
  poller->add(lane);
  for (int round = 1; round <= 50; ++round) {
    lane->ring();
    ASSERT_TRUE(eventually([&] { return lane->delivered.load() == round; }));
  }
}

TEST(Poller, ServesEveryLaneThatRings) {
  std::vector<std::shared_ptr<FakeLane>> lanes;
  const auto poller = start();
  for (int i = 0; i < 5; ++i) {
    lanes.push_back(std::make_shared<FakeLane>());
    poller->add(lanes.back());
  }
  for (const auto& lane : lanes) lane->ring();
  for (const auto& lane : lanes) {
    EXPECT_TRUE(eventually([&] { return lane->delivered.load() == 1; }));
  }
}

TEST(Poller, LeavesALaneAloneThatNobodyNeedsServed) {
  auto lane = std::make_shared<FakeLane>();
  auto other = std::make_shared<FakeLane>();
  lane->wanted.store(false);
  const auto poller = start();
  poller->add(lane);
  poller->add(other);
  lane->ring();
  other->ring();
  ASSERT_TRUE(eventually([&] { return other->delivered.load() == 1; }));
  EXPECT_EQ(lane->serves.load(), 0);
  lane->wanted.store(true);
  poller->kick();
  EXPECT_TRUE(eventually([&] { return lane->delivered.load() == 1; }));
}

TEST(Poller, ComesBackToALaneWithPendingWorkUnasked) {
  auto lane = std::make_shared<FakeLane>();
  lane->pending.store(true);
  const auto poller = start();
  poller->add(lane);
  const int before = lane->serves.load();
  EXPECT_TRUE(eventually([&] { return lane->serves.load() > before + 20; }));
}

TEST(Poller, SleepsWhenNothingHappens) {
  auto lane = std::make_shared<FakeLane>();
  const auto poller = start();
  poller->add(lane);
  ASSERT_TRUE(eventually([&] { return lane->arms.load() > 0; }));
  // It may have been on the way to its sleep; then the counts stand still.
  EXPECT_TRUE(eventually([&] {
    const int before = lane->serves.load();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return lane->serves.load() == before;
  }));
}

TEST(Poller, RemoveWaitsForARunningServe) {
  auto lane = std::make_shared<FakeLane>();
  std::atomic<bool> inside{false};
  std::atomic<bool> let_go{false};
  lane->on_serve = [&] {
    inside.store(true);
    while (!let_go.load()) std::this_thread::yield();
    inside.store(false);
  };
  const auto poller = start();
  poller->add(lane);
  ASSERT_TRUE(eventually([&] { return inside.load(); }));
  std::atomic<bool> removed{false};
  std::thread remover([&] {
    EXPECT_TRUE(poller->remove(lane, core::Deadline::never()));
    EXPECT_FALSE(inside.load());
    removed.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_FALSE(removed.load());
  let_go.store(true);
  remover.join();
  const int serves = lane->serves.load();
  lane->ring();
  poller->kick();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(lane->serves.load(), serves);
}

TEST(Poller, RemoveGivesUpAtItsDeadlineAndHoldsNevertheless) {
  auto lane = std::make_shared<FakeLane>();
  std::atomic<bool> inside{false};
  std::atomic<bool> let_go{false};
  lane->on_serve = [&] {
    inside.store(true);
    while (!let_go.load()) std::this_thread::yield();
  };
  const auto poller = start();
  poller->add(lane);
  ASSERT_TRUE(eventually([&] { return inside.load(); }));
  EXPECT_FALSE(poller->remove(lane, core::Deadline::after(std::chrono::milliseconds(5))));
  let_go.store(true);
  EXPECT_TRUE(poller->remove(lane, core::Deadline::after(kPollerHang)));
  const int serves = lane->serves.load();
  lane->ring();
  poller->kick();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(lane->serves.load(), serves);
}

TEST(Poller, RemoveDoesNotWaitForTheServeOfAnotherLane) {
  auto slow = std::make_shared<FakeLane>();
  auto lane = std::make_shared<FakeLane>();
  std::atomic<bool> inside{false};
  std::atomic<bool> let_go{false};
  slow->on_serve = [&] {
    inside.store(true);
    while (!let_go.load()) std::this_thread::yield();
  };
  const auto poller = start();
  poller->add(slow);
  poller->add(lane);
  ASSERT_TRUE(eventually([&] { return inside.load(); }));
  const int serves = lane->serves.load();
  EXPECT_TRUE(poller->remove(lane, core::Deadline::after(kPollerHang)));
  let_go.store(true);
  EXPECT_TRUE(poller->remove(slow, core::Deadline::after(kPollerHang)));
  EXPECT_EQ(lane->serves.load(), serves) << "served after its removal";
}

TEST(Poller, RemoveFromInsideAServeReturnsAndHolds) {
  auto lane = std::make_shared<FakeLane>();
  const auto poller = start();
  lane->on_serve = [&] { EXPECT_TRUE(poller->remove(lane, core::Deadline::never())); };
  poller->add(lane);
  auto other = std::make_shared<FakeLane>();
  poller->add(other);
  other->ring();
  ASSERT_TRUE(eventually([&] { return other->delivered.load() == 1; }));
  ASSERT_TRUE(eventually([&] { return lane->serves.load() == 1; }));
  lane->ring();
  poller->kick();
  other->ring();
  ASSERT_TRUE(eventually([&] { return other->delivered.load() == 2; }));
  EXPECT_EQ(lane->serves.load(), 1);
  lane->on_serve = nullptr;
}

TEST(Poller, RemoveOfAnotherLaneFromInsideAServeHolds) {
  auto first = std::make_shared<FakeLane>();
  auto second = std::make_shared<FakeLane>();
  const auto poller = start();
  std::atomic<int> serves_at_removal{-1};
  std::atomic<bool> armed{false};
  first->on_serve = [&] {
    if (!armed.load() || serves_at_removal.load() >= 0) return;
    EXPECT_TRUE(poller->remove(second, core::Deadline::never()));
    serves_at_removal.store(second->serves.load());
  };
  poller->add(first);
  poller->add(second);
  ASSERT_TRUE(eventually([&] { return second->serves.load() > 0; }));
  armed.store(true);
  first->ring();
  ASSERT_TRUE(eventually([&] { return serves_at_removal.load() >= 0; }));
  // A ring before the lane has taken the last one would be the same ring.
  ASSERT_TRUE(eventually([&] { return first->delivered.load() == 1; }));
  first->ring();
  ASSERT_TRUE(eventually([&] { return first->delivered.load() == 2; }));
  EXPECT_EQ(second->serves.load(), serves_at_removal.load()) << "served after its removal";
}

TEST(Poller, RemovesALaneItDoesNotHave) {
  const auto poller = start();
  EXPECT_TRUE(poller->remove(std::make_shared<FakeLane>(), core::Deadline::never()));
}

TEST(Poller, LetsGoOfItsLanesWhenItEnds) {
  auto lane = std::make_shared<FakeLane>();
  const std::weak_ptr<FakeLane> weak = lane;
  {
    const auto poller = start();
    poller->add(lane);
    lane.reset();
    EXPECT_FALSE(weak.expired());
  }
  EXPECT_TRUE(weak.expired());
}

}  // namespace
}  // namespace farwrite::device
