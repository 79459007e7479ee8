// Tags and messages: how they arrive, and how they are taken.
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

using Notifications = ConformancePair;

TEST_P(Notifications, ATagHas32Bits) {
  land(8);
  const std::byte byte{1};
  for (const std::uint32_t tag : {0U, 1U, 0x7fffffffU, 0x80000000U, 0xffffffffU}) {
    ASSERT_OK(near_.notify(tag).wait(kHang));
    ASSERT_OK(near_.write_with_notify({&byte, 1}, target_, 0, tag).wait(kHang));
    ASSERT_OK(near_.send({&byte, 1}, tag).wait(kHang));
    for (int i = 0; i < 3; ++i) {
      auto notification = far_.wait_notification(kHang);
      ASSERT_OK(notification);
      EXPECT_EQ(notification->tag, tag);
    }
  }
}

TEST_P(Notifications, AHundredThousandComeOnceAndInLaneOrder) {
  constexpr std::uint32_t kCount = 100'000;
  std::thread poster([&] {
    for (std::uint32_t i = 0; i < kCount; ++i) (void)near_.notify(i, i % lanes());
  });
  std::vector<std::uint32_t> next(lanes());
  for (std::uint32_t lane = 0; lane < lanes(); ++lane) next[lane] = lane;
  std::uint32_t taken = 0;
  for (; taken < kCount; ++taken) {
    auto notification = far_.wait_notification(kHang);
    EXPECT_OK(notification);
    if (!notification.ok()) break;
    EXPECT_EQ(notification->tag, next[notification->lane]);
    if (notification->tag != next[notification->lane]) break;
    next[notification->lane] += lanes();
  }
  poster.join();
  EXPECT_EQ(taken, kCount);
  EXPECT_FALSE(far_.try_notification().value().has_value());
  EXPECT_EQ(near_.stats().notifications_sent, kCount);
  EXPECT_EQ(far_.stats().notifications_received, kCount);
}

TEST_P(Notifications, MessagesArriveIntactUpToTheMaximum) {
  const std::uint64_t most = near_.max_message_bytes();
  ASSERT_GE(most, 256U);
  for (const std::uint64_t size : std::vector<std::uint64_t>{1, 7, 8, 255, most - 1, most}) {
    const auto tag = static_cast<std::uint32_t>(size);
    const std::vector<std::byte> message = make_bytes(size, tag);
    ASSERT_OK(near_.send({message.data(), size}, tag, lanes() - 1).wait(kHang));
    auto notification = far_.wait_notification(kHang);
    ASSERT_OK(notification);
    EXPECT_EQ(notification->tag, tag);
    EXPECT_EQ(notification->lane, lanes() - 1);
    EXPECT_EQ(notification->message, message);
  }
}

TEST_P(Notifications, AMessageThatIsTooLongIsRefusedAndHarmless) {
  const std::vector<std::byte> message(near_.max_message_bytes() + 1);
  EXPECT_FALSE(near_.send({message.data(), message.size()}).wait(kHang).ok());
  ASSERT_OK(near_.notify(9).wait(kHang));
  auto notification = far_.wait_notification(kHang);
  ASSERT_OK(notification);
  EXPECT_EQ(notification->tag, 9U) << "nothing of the long message may arrive";
}

TEST_P(Notifications, TryTakesWhatIsThereAndNeverWaits) {
  auto none = far_.try_notification();
  ASSERT_OK(none);
  EXPECT_FALSE(none->has_value());
  ASSERT_OK(near_.notify(3).wait(kHang));
  std::optional<Notification> taken;
  EXPECT_TRUE(eventually([&] { return (taken = far_.try_notification().value()).has_value(); }));
  ASSERT_TRUE(taken.has_value());
  EXPECT_EQ(taken->tag, 3U);
}

TEST_P(Notifications, WaitingEndsAtTheDeadlineAndMayGoOn) {
  EXPECT_CODE(kDeadlineExceeded, far_.wait_notification(std::chrono::milliseconds(20)).status());
  EXPECT_CODE(kDeadlineExceeded, far_.wait_notification(std::chrono::nanoseconds(0)).status());
  ASSERT_OK(near_.notify(4).wait(kHang));
  auto notification = far_.wait_notification(kHang);
  ASSERT_OK(notification);
  EXPECT_EQ(notification->tag, 4U);
}

TEST_P(Notifications, AWaiterThatSleepsIsWoken) {
  for (std::uint32_t tag = 0; tag < 20; ++tag) {
    std::thread poster([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));  // far past the waiter's spin
      (void)near_.notify(tag, tag % lanes());
    });
    auto notification = far_.wait_notification(kHang);
    poster.join();
    ASSERT_OK(notification);
    EXPECT_EQ(notification->tag, tag);
  }
}

TEST_P(Notifications, EveryOneGoesToExactlyOneOfManyWaiters) {
  constexpr std::uint32_t kThreads = 8, kCount = 2000, kStop = 0xffffffff;
  std::mutex mutex;
  std::multiset<std::uint32_t> taken;
  std::atomic<int> failures{0};
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      while (true) {
        auto notification = far_.wait_notification(kHang);
        if (!notification.ok()) {
          ++failures;
          return;
        }
        if (notification->tag == kStop) return;
        const std::lock_guard<std::mutex> lock(mutex);
        taken.insert(notification->tag);
      }
    });
  }
  for (std::uint32_t i = 0; i < kCount; ++i) (void)near_.notify(i, 0);
  for (std::uint32_t i = 0; i < kThreads; ++i) (void)near_.notify(kStop, 0);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
  ASSERT_EQ(taken.size(), kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) EXPECT_EQ(taken.count(i), 1U) << "tag " << i;
}

TEST_P(Notifications, AHandlerGetsThemInLaneOrderAndTheQueueComesBackAfterIt) {
  constexpr std::uint32_t kCount = 2000;
  std::mutex mutex;
  std::vector<std::vector<std::uint32_t>> handled(lanes());
  std::atomic<std::uint32_t> count{0};
  ASSERT_OK(far_.on_notification([&](Notification notification) {
    const std::lock_guard<std::mutex> lock(mutex);
    handled[notification.lane].push_back(notification.tag);
    ++count;
  }));
  for (std::uint32_t i = 0; i < kCount; ++i) (void)near_.notify(i, i % lanes());
  EXPECT_TRUE(eventually([&] { return count == kCount; }));
  ASSERT_OK(far_.on_notification(nullptr));
  for (const auto& tags : handled) EXPECT_TRUE(std::is_sorted(tags.begin(), tags.end()));

  (void)near_.notify(7);
  auto notification = far_.wait_notification(kHang);
  ASSERT_OK(notification);
  EXPECT_EQ(notification->tag, 7U);
  EXPECT_EQ(count, kCount) << "a handler that was taken back must not run";
}

TEST_P(Notifications, BothDirectionsAtOnce) {
  constexpr std::uint32_t kCount = 5000;
  const auto talk = [&](Channel& channel, std::uint32_t first) {
    return std::thread([&, first] {
      for (std::uint32_t i = 0; i < kCount; ++i) (void)channel.notify(first + i, 0);
    });
  };
  const auto listen = [&](Channel& channel, std::uint32_t first) {
    return std::thread([&, first] {
      for (std::uint32_t i = 0; i < kCount; ++i) {
        auto notification = channel.wait_notification(kHang);
        ASSERT_OK(notification);
        ASSERT_EQ(notification->tag, first + i);
      }
    });
  };
  std::vector<std::thread> threads;
  threads.push_back(talk(near_, 0));
  threads.push_back(talk(far_, 1'000'000));
  threads.push_back(listen(far_, 0));
  threads.push_back(listen(near_, 1'000'000));
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Notifications, AnEventLoopSleepsOnADescriptor) {
  constexpr std::uint32_t kCount = 20'000;
  const auto descriptor = far_.notification_descriptor();
  ASSERT_OK(descriptor);
  std::thread poster([&] {
    for (std::uint32_t i = 0; i < kCount; ++i) {
      (void)near_.notify(i);
      // So that the loop sleeps now and then.
      if (i % 1000 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  });
  std::uint32_t taken = 0;
  std::uint32_t sleeps = 0;
  while (taken < kCount) {
    auto next = far_.try_notification();
    ASSERT_OK(next);
    if (next->has_value()) {
      ASSERT_EQ((*next)->tag, taken);
      ++taken;
      continue;
    }
    auto quiet = far_.arm_notifications();
    ASSERT_OK(quiet);
    if (!quiet.value()) continue;
    pollfd entry{descriptor.value(), POLLIN, 0};
    const int ready = ::poll(&entry, 1, std::chrono::milliseconds(kHang).count());
    EXPECT_EQ(ready, 1) << "after " << taken;
    if (ready != 1) break;
    ++sleeps;
  }
  poster.join();
  EXPECT_EQ(taken, kCount);
  EXPECT_GT(sleeps, 0U);
}

// The poller and the loop look at a lane in turn. What wakes the loop for the other's sake must not
// wake it for ever.
TEST_P(Notifications, AnEventLoopSleepsAgainAfterLargeWrites) {
  constexpr std::uint64_t kBytes = 12 << 20;
  constexpr std::uint32_t kWrites = 4;
  auto inbox = far_.allocate(kBytes);
  ASSERT_OK(inbox);
  ASSERT_OK(far_.publish("inbox", *inbox));
  auto target = near_.lookup("inbox", kHang);
  ASSERT_OK(target);
  const std::vector<std::byte> source = make_bytes(kBytes, 1);
  std::vector<Completion> writes;
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    writes.push_back(near_.write_with_notify({source.data(), source.size()}, *target, 0, i));
  }
  std::uint32_t taken = 0;
  const auto sleeps_for_a_while = [](Channel& channel, std::uint32_t& count) {
    const auto descriptor = channel.notification_descriptor();
    // Each wake has its reason: a piece of the writes, or another thread's look.
    const auto end = std::chrono::steady_clock::now() + kHang;
    while (std::chrono::steady_clock::now() < end) {
      auto next = channel.try_notification();
      EXPECT_OK(next);
      if (!next.ok()) return false;
      if (next->has_value()) {
        ++count;
        continue;
      }
      const auto quiet = channel.arm_notifications();
      EXPECT_OK(quiet);
      if (!quiet.ok()) return false;
      if (!quiet.value()) continue;
      pollfd entry{descriptor.value(), POLLIN, 0};
      if (::poll(&entry, 1, 300) == 0) return true;
    }
    return false;
  };
  while (taken < kWrites) ASSERT_TRUE(sleeps_for_a_while(far_, taken)) << "after " << taken;
  for (Completion& each : writes) EXPECT_OK(each.wait(kHang));
  std::uint32_t none = 0;
  EXPECT_TRUE(sleeps_for_a_while(near_, none));
  EXPECT_TRUE(sleeps_for_a_while(far_, taken));
  EXPECT_EQ(taken, kWrites);
}

// The sender's own thread and its poller look at one lane in turn; whichever thread looks last has
// to see to what the peer has no room for.
TEST_P(Notifications, WhatWaitsForRoomLeavesWhileItsSendersEventLoopSleeps) {
  constexpr std::uint32_t kRounds = 5;
  constexpr std::uint32_t kCount = 400;
  const std::vector<std::byte> message = make_bytes(near_.max_message_bytes(), 1);
  const auto descriptor = near_.notification_descriptor();
  ASSERT_OK(descriptor);
  std::thread loop([&] {
    while (!near_.try_notification().value().has_value()) {
      if (!near_.arm_notifications().value()) continue;
      pollfd entry{descriptor.value(), POLLIN, 0};
      ::poll(&entry, 1, -1);
    }
  });
  for (std::uint32_t round = 0; round < kRounds; ++round) {
    std::vector<Completion> sent;
    for (std::uint32_t i = 0; i < kCount; ++i) {
      sent.push_back(near_.send({message.data(), message.size()}, i));
    }
    std::uint32_t next = 0;
    while (next < kCount) {
      auto taken = far_.wait_notification(kHang);
      EXPECT_OK(taken);
      if (!taken.ok() || taken->tag != next) break;
      ++next;
    }
    EXPECT_EQ(next, kCount) << "in round " << round;
    if (next < kCount) break;
    for (Completion& each : sent) EXPECT_OK(each.wait(kHang));
  }
  EXPECT_OK(far_.notify(1).wait(kHang));  // ends the loop
  loop.join();
}

TEST_P(Notifications, APollingThreadSparesTheRingAndLeavesTheDescriptorArmed) {
  const auto descriptor = far_.notification_descriptor();
  ASSERT_OK(descriptor);
  const auto is_rung = [&](std::chrono::milliseconds within) {
    pollfd entry{descriptor.value(), POLLIN, 0};
    return ::poll(&entry, 1, static_cast<int>(within.count())) == 1;
  };
  for (std::uint32_t round = 0; round < 10; ++round) {
    while (!far_.arm_notifications().value()) EXPECT_OK(far_.try_notification());
    // The event loop sleeps. Another thread polls.
    far_.disarm_notifications();
    const std::uint64_t doorbells = near_.stats().doorbells;
    EXPECT_OK(near_.notify(1).wait(kHang));
    if (near_.peer().fabric == FabricKind::kShm) {
      EXPECT_EQ(near_.stats().doorbells, doorbells);
      EXPECT_FALSE(is_rung(std::chrono::milliseconds(1)));
    }
    EXPECT_OK(far_.wait_notification(kHang));
    // It leaves.
    while (!far_.arm_notifications().value()) EXPECT_OK(far_.try_notification());
    EXPECT_OK(near_.notify(2).wait(kHang));
    ASSERT_TRUE(is_rung(kHang)) << "in round " << round;
    EXPECT_OK(far_.wait_notification(kHang));
  }
}

TEST_P(Notifications, TheEndWakesAnEventLoop) {
  const auto descriptor = far_.notification_descriptor();
  ASSERT_OK(descriptor);
  const auto deadline = std::chrono::steady_clock::now() + kHang;
  std::thread closer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_OK(near_.close(kHang));
  });
  bool ended = false;
  while (!ended && std::chrono::steady_clock::now() < deadline) {
    ended = !far_.try_notification().ok();
    if (ended) break;
    const auto quiet = far_.arm_notifications();
    if (!quiet.ok() || !quiet.value()) continue;
    pollfd entry{descriptor.value(), POLLIN, 0};
    EXPECT_EQ(::poll(&entry, 1, std::chrono::milliseconds(kHang).count()), 1);
  }
  closer.join();
  EXPECT_TRUE(ended);
}

TEST_P(Notifications, AnEventLoopThatAHandlerTakesTheNotificationsFromIsToldSo) {
  ASSERT_OK(far_.on_notification([](const Notification&) {}));
  EXPECT_EQ(far_.arm_notifications().status().code(), StatusCode::kFailedPrecondition);
  ASSERT_OK(far_.on_notification(nullptr));
  EXPECT_OK(far_.arm_notifications());
}

TEST_P(Notifications, ALaneThatDoesNotExistIsRefused) {
  land(64);
  show(make_bytes(64, 1));
  std::byte buffer[64] = {};
  for (const std::uint32_t lane : {lanes(), std::uint32_t{0xffffffff}}) {
    for (const Completion& refused :
         {near_.notify(1, lane), near_.send({buffer, 64}, 1, lane),
          near_.write({buffer, 64}, target_, 0, lane), near_.read({buffer, 64}, source_, 0, lane),
          near_.write_with_notify({buffer, 64}, target_, 0, 1, lane)}) {
      EXPECT_TRUE(refused.done()) << "as for every argument that cannot be";
      EXPECT_CODE(kInvalidArgument, refused.wait(kHang));
    }
  }
}

FARWRITE_EVERY_FABRIC(Notifications);
FARWRITE_ENCRYPTED_TOO(Notifications);

}  // namespace
}  // namespace farwrite
