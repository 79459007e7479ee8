#include "device/notification_inbox.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <functional>
#include <set>
#include <thread>

namespace farwrite::device {
namespace {

constexpr std::chrono::seconds kInboxHang(30);
constexpr std::chrono::nanoseconds kNoSpin(0);

core::Deadline inbox_deadline() { return core::Deadline::after(kInboxHang); }

// One lane, as a fabric would have it: what arrived lies there until a thread polls.
class FakeDriver : public LaneDriver {
 public:
  explicit FakeDriver(NotificationInbox& inbox) : inbox_(inbox) {}

  void arrive(std::uint32_t tag) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      arrived_.push_back({tag, 0, {}});
    }
    constexpr std::uint64_t kOne = 1;
    EXPECT_EQ(::write(doorbell_.get(), &kOne, sizeof(kOne)), 8);
  }
  void end(const Status& reason) {
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      ended_ = reason;
    }
    inbox_.wake_all();
  }
  void poll_lanes(std::optional<Notification>* taken = nullptr) override {
    const NotificationInbox::Delivery delivery(inbox_, std::try_to_lock);
    if (!delivery.begun()) return;
    const std::lock_guard<std::mutex> lane(polling_);
    while (true) {
      Notification next;
      {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (arrived_.empty()) return;
        next = std::move(arrived_.front());
        arrived_.pop_front();
      }
      inbox_.deliver(std::move(next), taken);
    }
  }
  PeerState peer_state() const override { return PeerState::kAlive; }
  bool arm_lanes(std::vector<pollfd>& doorbells) override {
    if (before_arming != nullptr) before_arming();
    std::uint64_t rings = 0;
    [[maybe_unused]] const ssize_t count = ::read(doorbell_.get(), &rings, sizeof(rings));
    doorbells.push_back({doorbell_.get(), POLLIN, 0});
    armed.fetch_add(1);
    const std::lock_guard<std::mutex> lock(mutex_);
    return arrived_.empty();
  }
  const std::string& peer_name() const override { return peer_name_; }
  Status ended() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ended_;
  }
  std::atomic<int> armed{0};
  std::function<void()> before_arming;

 private:
  const std::string peer_name_ = "a:1";
  NotificationInbox& inbox_;
  core::UniqueFd doorbell_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::mutex polling_;
  mutable std::mutex mutex_;
  std::deque<Notification> arrived_;
  Status ended_;
};

class Inbox : public ::testing::Test {
 protected:
  Inbox() { EXPECT_TRUE(inbox_.open().ok()); }
  Result<Notification> take(core::Deadline deadline = inbox_deadline()) {
    return inbox_.take(lane_, deadline, kNoSpin);
  }
  void wait_until_somebody_sleeps() {
    while (lane_.armed.load() == 0) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  NotificationInbox inbox_;
  FakeDriver lane_{inbox_};
};

TEST_F(Inbox, GivesNotificationsInTheirOrder) {
  for (std::uint32_t tag = 0; tag < 10; ++tag) lane_.arrive(tag);
  for (std::uint32_t tag = 0; tag < 10; ++tag) EXPECT_EQ(take().value().tag, tag);
  EXPECT_EQ(inbox_.notifications(), 10u);
  EXPECT_FALSE(inbox_.try_take().has_value());
}

TEST_F(Inbox, HandsTheFirstToThePollingThreadAndQueuesTheRest) {
  for (std::uint32_t tag = 0; tag < 3; ++tag) lane_.arrive(tag);
  std::optional<Notification> taken;
  lane_.poll_lanes(&taken);
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->tag, 0U);
  EXPECT_EQ(inbox_.notifications(), 3U);
  EXPECT_EQ(take().value().tag, 1U);
  EXPECT_EQ(take().value().tag, 2U);
}

TEST_F(Inbox, LetsNoneOvertakeWhatIsQueued) {
  lane_.arrive(1);
  lane_.poll_lanes();
  lane_.arrive(2);
  std::optional<Notification> taken;
  lane_.poll_lanes(&taken);
  EXPECT_FALSE(taken.has_value());
  EXPECT_EQ(take().value().tag, 1U);
  EXPECT_EQ(take().value().tag, 2U);
}

// take() of a lane that has, or has not.
auto has(bool bare) {
  return [bare](const std::atomic<std::size_t>& queued) { return bare && queued.load() == 0; };
}

TEST_F(Inbox, TakesByTheShortWayWhereNothingIsQueuedAndNoHandlerTakes) {
  EXPECT_FALSE(inbox_.take_bare(has(false)));
  EXPECT_EQ(inbox_.notifications(), 0U);
  EXPECT_TRUE(inbox_.take_bare(has(true)));
  EXPECT_EQ(inbox_.notifications(), 1U);
  lane_.arrive(1);
  lane_.poll_lanes();
  EXPECT_FALSE(inbox_.take_bare(has(true)));
  EXPECT_EQ(take().value().tag, 1U);
  ASSERT_TRUE(inbox_.set_handler([](Notification) {}, inbox_deadline()).ok());
  EXPECT_FALSE(inbox_.take_bare(has(true)));
  ASSERT_TRUE(inbox_.set_handler(nullptr, inbox_deadline()).ok());
  EXPECT_TRUE(inbox_.take_bare(has(true)));
  EXPECT_EQ(inbox_.notifications(), 3U);
}

TEST_F(Inbox, LetsOneThreadTakeByTheShortWay) {
  EXPECT_TRUE(inbox_.take_bare([this](const std::atomic<std::size_t>&) {
    EXPECT_FALSE(inbox_.take_bare(has(true)));
    EXPECT_FALSE(inbox_.no_longer_bare(core::Deadline::after(std::chrono::milliseconds(1))));
    return true;
  }));
  EXPECT_TRUE(inbox_.no_longer_bare(core::Deadline::after({})));
}

TEST_F(Inbox, SetsNoHandlerWhileOneIsTakenByTheShortWay) {
  EXPECT_TRUE(inbox_.take_bare([this](const std::atomic<std::size_t>&) {
    std::thread setter([this] {
      EXPECT_EQ(inbox_.set_handler([](Notification) {}, core::Deadline::after(kNoSpin)).code(),
                StatusCode::kDeadlineExceeded);
    });
    setter.join();
    return true;
  }));
  EXPECT_TRUE(inbox_.take_bare(has(true)));  // it was not set
  EXPECT_TRUE(inbox_.set_handler([](Notification) {}, inbox_deadline()).ok());
  EXPECT_FALSE(inbox_.take_bare(has(true)));
}

TEST_F(Inbox, CountsMessagesApart) {
  const NotificationInbox::Delivery delivery(inbox_);
  inbox_.on_notification({1, 0, {}});
  inbox_.on_notification({2, 0, {std::byte{1}}});
  EXPECT_EQ(inbox_.notifications(), 1u);
  EXPECT_EQ(inbox_.messages(), 1u);
}

TEST_F(Inbox, StopsWaitingAtTheDeadline) {
  const Status late = take(core::Deadline::after(std::chrono::milliseconds(10))).status();
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(late.message().starts_with("wait for a notification from a:1: ")) << late.message();
  lane_.arrive(1);
  EXPECT_EQ(take(core::Deadline::after(std::chrono::nanoseconds(0))).value().tag, 1u)
      << "what is there is taken without time to wait";
}

TEST_F(Inbox, WakesASleeperByItsDoorbell) {
  std::thread waiter([&] { EXPECT_EQ(take().value().tag, 7u); });
  wait_until_somebody_sleeps();
  lane_.arrive(7);
  waiter.join();
}

TEST_F(Inbox, HearsItsDoorbellAlthoughAnotherThreadArmsIt) {
  int armed = 0;
  lane_.before_arming = [&] {
    // What came before the other thread armed would ring no more.
    if (++armed == 1) inbox_.ring_sleeping_driver();
    if (armed == 2) lane_.arrive(7);
  };
  EXPECT_EQ(take(inbox_deadline()).value().tag, 7u);
}

TEST_F(Inbox, EndsAWaitForSomethingElse) {
  std::atomic<bool> over = false;
  const auto until_over = [&] {
    const NotificationInbox::Drive drive(inbox_, lane_);
    return inbox_.take_until(lane_, inbox_deadline(), kNoSpin, [&] { return over.load(); });
  };
  lane_.arrive(1);
  EXPECT_EQ(until_over().value()->tag, 1u) << "notifications are taken meanwhile";
  std::thread waiter([&] { EXPECT_FALSE(until_over().value().has_value()); });
  wait_until_somebody_sleeps();
  over = true;
  inbox_.wake_drivers();
  waiter.join();
  lane_.arrive(2);
  EXPECT_EQ(until_over().value()->tag, 2u) << "what has come goes first";
  EXPECT_FALSE(until_over().value().has_value());
}

TEST_F(Inbox, WakesASleeperForWhatAnotherThreadPolled) {
  std::thread waiter([&] { EXPECT_EQ(take().value().tag, 8u); });
  wait_until_somebody_sleeps();
  {
    const NotificationInbox::Delivery delivery(inbox_);
    inbox_.on_notification({8, 0, {}});
  }
  waiter.join();
}

TEST_F(Inbox, TellsTheEventLoopOfARingThatAWaiterTookAway) {
  const int loop = inbox_.descriptor().value();
  ASSERT_TRUE(inbox_.arm(lane_).value());
  // It comes after the waiter has looked and before that arms, which silences the doorbell.
  lane_.before_arming = [this] { lane_.arrive(1); };
  EXPECT_EQ(take().value().tag, 1U);
  pollfd waited{loop, POLLIN, 0};
  EXPECT_EQ(::poll(&waited, 1, 0), 1) << "nothing rings for what comes next";
}

TEST_F(Inbox, GivesEveryNotificationToOneOfSeveralWaiters) {
  constexpr std::uint32_t kCount = 3000;
  std::mutex mutex;
  std::multiset<std::uint32_t> taken;
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] {
      while (true) {
        auto next = take();
        if (!next.ok()) {
          EXPECT_EQ(next.status().code(), StatusCode::kPeerDead);
          return;
        }
        const std::lock_guard<std::mutex> lock(mutex);
        taken.insert(next->tag);
      }
    });
  }
  for (std::uint32_t tag = 0; tag < kCount; ++tag) lane_.arrive(tag);
  lane_.end(Status(StatusCode::kPeerDead, "gone"));
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(taken.size(), kCount) << "lost or doubled";
  EXPECT_EQ(std::set<std::uint32_t>(taken.begin(), taken.end()).size(), kCount);
}

TEST_F(Inbox, DeliversWhatHadArrivedBeforeTheEnd) {
  lane_.arrive(1);
  lane_.arrive(2);
  lane_.end(Status(StatusCode::kPeerDead, "gone"));
  EXPECT_EQ(take().value().tag, 1u);
  EXPECT_EQ(take().value().tag, 2u);
  EXPECT_EQ(take().status().code(), StatusCode::kPeerDead);
}

TEST_F(Inbox, EndsTheWaitingOfEverybody) {
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] { EXPECT_EQ(take().status().code(), StatusCode::kCancelled); });
  }
  wait_until_somebody_sleeps();
  lane_.end(Status(StatusCode::kCancelled, "closed"));
  for (std::thread& waiter : waiters) waiter.join();
}

TEST_F(Inbox, HandsWhatIsQueuedToANewHandlerAndThenWhatComes) {
  lane_.arrive(1);
  lane_.arrive(2);
  lane_.poll_lanes();
  std::vector<std::uint32_t> handled;
  ASSERT_TRUE(inbox_
                  .set_handler([&](const Notification& next) { handled.push_back(next.tag); },
                               inbox_deadline())
                  .ok());
  EXPECT_EQ(handled, (std::vector<std::uint32_t>{1, 2}));
  EXPECT_TRUE(inbox_.has_handler());
  lane_.arrive(3);
  lane_.poll_lanes();
  EXPECT_EQ(handled.back(), 3u);
  EXPECT_FALSE(inbox_.try_take().has_value());
  EXPECT_EQ(take().status().code(), StatusCode::kFailedPrecondition);
  ASSERT_TRUE(inbox_.set_handler(nullptr, inbox_deadline()).ok());
  lane_.arrive(4);
  EXPECT_EQ(take().value().tag, 4u);
}

// A thread that polls may hold what the handler waits for, as one of Python's holds the GIL.
TEST_F(Inbox, LetsNoUsersThreadWaitForANewHandlerThatRuns) {
  lane_.arrive(1);
  lane_.poll_lanes();
  std::atomic<bool> running{false};
  std::atomic<bool> polled{false};
  std::thread changer([&] {
    const auto handler = [&](const Notification& next) {
      running.store(true);
      if (next.tag == 1) polled.wait(false);
    };
    EXPECT_TRUE(inbox_.set_handler(handler, inbox_deadline()).ok());
  });
  while (!running.load()) std::this_thread::yield();
  lane_.arrive(2);
  lane_.poll_lanes();  // returns, and leaves it in the lane
  polled.store(true);
  polled.notify_one();
  changer.join();
  EXPECT_EQ(inbox_.notifications(), 1u);
  lane_.poll_lanes();
  EXPECT_EQ(inbox_.notifications(), 2u);
}

TEST_F(Inbox, EndsAWaitWhenAHandlerTakesOver) {
  std::thread waiter([&] { EXPECT_EQ(take().status().code(), StatusCode::kFailedPrecondition); });
  wait_until_somebody_sleeps();
  ASSERT_TRUE(inbox_.set_handler([](const Notification&) {}, inbox_deadline()).ok());
  waiter.join();
}

TEST_F(Inbox, RefusesToChangeTheHandlerInsideIt) {
  lane_.arrive(1);
  lane_.poll_lanes();
  std::vector<StatusCode> inside;
  const auto change = [&](const Notification&) {
    inside.push_back(inbox_.set_handler(nullptr, inbox_deadline()).code());
  };
  ASSERT_TRUE(inbox_.set_handler(change, inbox_deadline()).ok());  // runs it for what is queued
  lane_.arrive(2);
  lane_.poll_lanes();  // and for what comes
  EXPECT_EQ(inside, (std::vector<StatusCode>(2, StatusCode::kFailedPrecondition)));
  EXPECT_TRUE(inbox_.set_handler(nullptr, inbox_deadline()).ok());
}

TEST_F(Inbox, RefusesToChangeTheHandlerInsideItAfterThatHasSetAnother) {
  NotificationInbox other;
  ASSERT_TRUE(other.open().ok());
  FakeDriver others_lane(other);
  others_lane.arrive(1);
  others_lane.poll_lanes();
  std::vector<StatusCode> inside;
  const auto change = [&] {
    inside.push_back(inbox_.set_handler(nullptr, inbox_deadline()).code());
  };
  ASSERT_TRUE(
      inbox_
          .set_handler(
              [&](const Notification&) {
                // Runs `change` one handler further in, for what is queued there.
                EXPECT_TRUE(
                    other.set_handler([&](const Notification&) { change(); }, inbox_deadline())
                        .ok());
                change();
              },
              inbox_deadline())
          .ok());
  lane_.arrive(2);
  lane_.poll_lanes();
  EXPECT_EQ(inside, (std::vector<StatusCode>(2, StatusCode::kFailedPrecondition)));
}

TEST_F(Inbox, KeepsItsHandlerWhenThatDoesNotReturnInTime) {
  std::atomic<bool> inside{false}, let_go{false};
  std::atomic<int> handled{0};
  ASSERT_TRUE(inbox_
                  .set_handler(
                      [&](const Notification&) {
                        inside.store(true);
                        while (!let_go.load()) std::this_thread::yield();
                        ++handled;
                      },
                      inbox_deadline())
                  .ok());
  lane_.arrive(1);
  std::thread poller([&] { lane_.poll_lanes(); });
  while (!inside.load()) std::this_thread::yield();
  const Status late =
      inbox_.set_handler(nullptr, core::Deadline::after(std::chrono::milliseconds(20)));
  EXPECT_EQ(late.code(), StatusCode::kDeadlineExceeded) << late.message();
  EXPECT_TRUE(inbox_.has_handler());
  let_go.store(true);
  poller.join();
  lane_.arrive(2);
  lane_.poll_lanes();
  EXPECT_EQ(handled.load(), 2);
}

TEST_F(Inbox, ChangesItsHandlerWhileDeliveriesFollowEachOtherWithoutAPause) {
  std::atomic<bool> over{false};
  std::atomic<int> deliveries{0};
  std::vector<std::thread> pollers;
  for (int index = 0; index < 2; ++index) {
    pollers.emplace_back([&] {
      while (!over.load()) {
        const NotificationInbox::Delivery delivery(inbox_);
        std::this_thread::sleep_for(std::chrono::microseconds(200));
        deliveries.fetch_add(1);
      }
    });
  }
  bool changed = true;
  for (int round = 0; round < 10 && changed; ++round) {
    const int seen = deliveries.load();
    while (deliveries.load() < seen + 4) std::this_thread::yield();
    changed = inbox_.set_handler([](const Notification&) {}, inbox_deadline()).ok();
  }
  EXPECT_TRUE(changed);
  over.store(true);
  for (std::thread& poller : pollers) poller.join();
}

TEST_F(Inbox, IsNotRunningTheOldHandlerOnceItIsReplaced) {
  std::atomic<bool> stop{false};
  std::thread poller([&] {
    for (std::uint32_t tag = 0; !stop.load(); ++tag) {
      lane_.arrive(tag);
      lane_.poll_lanes();
    }
  });
  std::atomic<int> current{0};
  for (int round = 1; round <= 200; ++round) {
    current.store(round);
    ASSERT_TRUE(inbox_
                    .set_handler(
                        [&current, round](const Notification&) {
                          EXPECT_EQ(current.load(), round) << "a replaced handler runs";
                        },
                        inbox_deadline())
                    .ok());
    std::this_thread::yield();
    // From here on only the old one may see its own number.
    ASSERT_TRUE(inbox_.set_handler(nullptr, inbox_deadline()).ok());
  }
  stop.store(true);
  poller.join();
}

TEST_F(Inbox, DestroysAReplacedHandlerThatUsesTheInbox) {
  struct OnDestruction {
    explicit OnDestruction(NotificationInbox& inbox) : inbox(inbox) {}
    ~OnDestruction() {
      (void)inbox.try_take();
      (void)inbox.set_handler(nullptr, inbox_deadline());
    }
    NotificationInbox& inbox;
  };
  ASSERT_TRUE(inbox_
                  .set_handler([owned = std::make_shared<OnDestruction>(inbox_)](
                                   const Notification&) { (void)owned; },
                               inbox_deadline())
                  .ok());
  EXPECT_TRUE(inbox_.set_handler(nullptr, inbox_deadline()).ok());
}

}  // namespace
}  // namespace farwrite::device
