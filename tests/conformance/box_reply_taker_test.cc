// Which thread takes what a server sends (src/box/reply_taker.h).
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "box/reply_taker.h"
#include "conformance/conformance.h"
#include "core/interrupt.h"

namespace farwrite::box {
namespace {

// The far end answers each notification with one of the same tag, as a server would.
class ReplyTakers : public ConformancePair {
 protected:
  void SetUp() override {
    ConformancePair::SetUp();
    ASSERT_OK(
        far_.on_notification([far = &far_](const Notification& asked) { far->notify(asked.tag); }));
    taker_ = std::make_shared<ReplyTaker>(near_, [this](const Notification& answer) {
      const std::lock_guard<std::mutex> lock(mutex_);
      taken_.push_back({answer.tag, std::this_thread::get_id()});
    });
    ASSERT_OK(taker_->start());
  }
  ~ReplyTakers() override {
    if (near_.valid()) (void)near_.close();  // its handler uses this
  }

  // Whether the answer of that tag was taken, and by the thread that asks this.
  bool is_taken(std::uint32_t tag) { return by(tag) != std::thread::id(); }
  bool is_taken_here(std::uint32_t tag) { return by(tag) == std::this_thread::get_id(); }
  void ask_and_wait(std::uint32_t tag, bool alone = true) {
    taker_->drive([&] { near_.notify(tag); }, [&] { return is_taken(tag); },
                  [alone] { return alone; }, core::Deadline::after(kHang));
    EXPECT_TRUE(eventually([&] { return is_taken(tag); }));
  }

  // Asks until this thread takes the answers itself: at first a poller may be at a lane.
  void drive_at_last() {
    ASSERT_TRUE(eventually([&] {
      ask_and_wait(++last_tag_);
      return is_taken_here(last_tag_);
    }));
  }

  std::shared_ptr<ReplyTaker> taker_;

 private:
  std::thread::id by(std::uint32_t tag) {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const auto& [taken, thread] : taken_) {
      if (taken == tag) return thread;
    }
    return {};
  }

  std::uint32_t last_tag_ = 1000;
  std::mutex mutex_;
  std::vector<std::pair<std::uint32_t, std::thread::id>> taken_;
};

TEST_P(ReplyTakers, AThreadThatWaitsAloneTakesItsAnswers) {
  drive_at_last();
  drive_at_last();
}

TEST_P(ReplyTakers, ThePollerTakesWhatIsNotTheThreadsAlone) {
  ask_and_wait(1, /*alone=*/false);
  EXPECT_FALSE(is_taken_here(1));
}

TEST_P(ReplyTakers, ThePollerTakesWhatIsAskedForAfterMakingWay) {
  drive_at_last();
  taker_->make_way();
  near_.notify(2);
  EXPECT_TRUE(eventually([&] { return is_taken(2); }));
  EXPECT_FALSE(is_taken_here(2));
}

TEST_P(ReplyTakers, ThePollerTakesWhatComesToAnIdleClient) {
  drive_at_last();
  ASSERT_OK(far_.notify(2).wait(kHang));
  EXPECT_TRUE(eventually([&] { return is_taken(2); }));
}

TEST_P(ReplyTakers, AThreadThatWaitsGivesWayToAnother) {
  drive_at_last();
  std::atomic<bool> over = false;
  std::atomic<bool> waits = false;
  std::thread first([&] {
    taker_->drive([&] { waits = true; }, [&] { return over.load(); }, [] { return true; },
                  core::Deadline::after(kHang));
  });
  ASSERT_TRUE(eventually([&] { return waits.load(); }));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it sleeps by now
  ask_and_wait(2);
  first.join();  // it waits in another way for what is not over
  taker_->make_way();
  near_.notify(3);
  EXPECT_TRUE(eventually([&] { return is_taken(3); }));
}

TEST_P(ReplyTakers, AThreadThatSleepsHearsThatItsWaitIsOver) {
  drive_at_last();
  std::atomic<bool> over = false;
  std::thread waits([&] {
    taker_->drive([] {}, [&] { return over.load(); }, [] { return true; },
                  core::Deadline::after(std::chrono::hours(1)));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  over = true;
  near_.wake_drivers();
  waits.join();
}

TEST_P(ReplyTakers, NothingIsLostAmongThreadsThatComeAndGo) {
  constexpr std::uint32_t kEach = 200;
  std::atomic<int> asking = 0;
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      for (std::uint32_t i = 0; i < kEach; ++i) {
        const std::uint32_t tag = 1 + thread * kEach + i;
        if (thread == 2) {  // as a request does whose answer calls the program
          taker_->make_way();
          near_.notify(tag);
          ASSERT_TRUE(eventually([&] { return is_taken(tag); }));
          ASSERT_FALSE(is_taken_here(tag));
          continue;
        }
        asking.fetch_add(1);
        ask_and_wait(tag, /*alone=*/asking.load() == 1);
        asking.fetch_sub(1);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST_P(ReplyTakers, AThreadThatIsInterruptedLeavesTheAnswerToThePoller) {
  core::Interrupt::set([](void*) { return 1; }, nullptr, std::chrono::milliseconds(1));
  std::this_thread::sleep_for(std::chrono::milliseconds(2));
  taker_->drive([&] { near_.notify(1); }, [&] { return is_taken(1); }, [] { return true; },
                core::Deadline::after(kHang));
  core::Interrupt::set(nullptr, nullptr);
  EXPECT_TRUE(eventually([&] { return is_taken(1); }));
  EXPECT_FALSE(is_taken_here(1));
}

TEST_P(ReplyTakers, TheEndOfTheChannelEndsADrive) {
  drive_at_last();
  std::thread waits([&] {
    taker_->drive([] {}, [] { return false; }, [] { return true; },
                  core::Deadline::after(std::chrono::hours(1)));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  ASSERT_OK(far_device_.close(kHang));
  waits.join();
}

TEST_P(ReplyTakers, TheEndOfTheChannelEndsADriveThatPolls) {
  DeviceOptions polls = options();
  polls.spin = std::chrono::hours(1);
  Device device = open(polls);
  ChannelPair pair = connect(device, far_device_);
  const auto taker = std::make_shared<ReplyTaker>(pair.near, [](const Notification&) {});
  ASSERT_OK(taker->start());
  std::atomic<bool> over = false;
  std::thread waits([&] {
    // At first a poller may be at a lane, and the thread returns at once.
    while (taker->drives() == 0) {
      taker->drive([] {}, [] { return false; }, [] { return true; },
                   core::Deadline::after(2 * kHang));
    }
    over = true;
  });
  ASSERT_TRUE(eventually([&] { return taker->drives() > 0; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  ASSERT_OK(far_device_.close(kHang));
  EXPECT_TRUE(eventually([&] { return over.load(); }));
  waits.join();
}

TEST_P(ReplyTakers, WhatCameBeforeTheEndOfTheChannelIsTakenBeforeIt) {
  for (int round = 0; round < 20; ++round) {
    ChannelPair pair = connect(near_device_, far_device_);
    std::thread server([far = pair.far]() mutable {
      for (const std::uint32_t tag : {1, 2}) {
        ASSERT_OK(far.wait_notification(kHang));
        ASSERT_OK(far.notify(tag).wait(kHang));
      }
      (void)far.close(kHang);
    });
    std::atomic<std::uint32_t> taken = 0;
    std::atomic<bool> ended = false, lost = false;
    const auto taker = std::make_shared<ReplyTaker>(
        pair.near, [&](const Notification& answer) { taken = answer.tag; });
    ASSERT_OK(taker->start());
    ASSERT_OK(pair.near.on_end([&](bool, const Status&) {
      taker->finish([&] {
        lost = taken.load() != 2;
        ended = true;
      });
    }));
    for (const std::uint32_t tag : {1, 2}) {
      taker->drive([&] { pair.near.notify(0); }, [&] { return taken.load() == tag; },
                   [] { return true; }, core::Deadline::after(kHang));
      EXPECT_TRUE(eventually([&] { return taken.load() == tag; }));
    }
    EXPECT_TRUE(eventually([&] { return ended.load(); }));
    EXPECT_FALSE(lost);
    server.join();
    (void)pair.near.close(kHang);
  }
}

FARWRITE_EVERY_FABRIC_INSIDE(ReplyTakers);

}  // namespace
}  // namespace farwrite::box
