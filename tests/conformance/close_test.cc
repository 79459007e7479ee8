// The end of a channel or device: nothing hangs, nothing lands late, nothing is left behind.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <iterator>
#include <thread>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

using Closing = ConformancePair;

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST_P(Closing, TwiceIsOkForChannelsAndDevices) {
  EXPECT_OK(near_.close(kHang));
  EXPECT_OK(near_.close(kHang));
  EXPECT_OK(near_device_.close(kHang));
  EXPECT_OK(near_device_.close(kHang));
}

// A system gives the id of a thread that has ended to a later one.
TEST_P(Closing, AgainIsOkFromThreadsThatBeganLater) {
  EXPECT_OK(near_.close(kHang));
  EXPECT_OK(near_device_.close(kHang));
  for (int i = 0; i < 16; ++i) {
    std::thread([&] {
      EXPECT_OK(near_.close(kHang));
      EXPECT_OK(near_device_.close(kHang));
    }).join();
  }
}

TEST_P(Closing, ThePeerSeesThatTheChannelWasClosedInGoodOrder) {
  std::thread waiter([&] { EXPECT_FALSE(far_.wait_notification(kHang).ok()); });
  EXPECT_OK(near_.close(kHang));
  waiter.join();
  EXPECT_EQ(far_.peer_state(), PeerState::kClosed);
  EXPECT_FALSE(far_.notify(1).wait(kHang).ok());
  EXPECT_FALSE(far_.flush().wait(kHang).ok());
  EXPECT_FALSE(far_.lookup("x", std::chrono::seconds(1)).ok());
  EXPECT_OK(far_.close(kHang));
}

TEST_P(Closing, AfterItEveryCallIsAnErrorAndNoneHangs) {
  land(64);
  show(make_bytes(64, 1));
  auto own = near_device_.allocate(64);
  ASSERT_OK(own);
  ASSERT_OK(near_.close(kHang));
  std::byte byte{1};
  EXPECT_FALSE(near_.write({&byte, 1}, target_).wait(kHang).ok());
  EXPECT_FALSE(near_.write_with_notify({&byte, 1}, target_, 0, 1).wait(kHang).ok());
  EXPECT_FALSE(near_.read({&byte, 1}, source_).wait(kHang).ok());
  EXPECT_FALSE(near_.notify(1).wait(kHang).ok());
  EXPECT_FALSE(near_.send({&byte, 1}).wait(kHang).ok());
  EXPECT_FALSE(near_.flush().wait(kHang).ok());
  EXPECT_FALSE(near_.allocate(64).ok());
  EXPECT_FALSE(near_.publish("x", *own).ok());
  EXPECT_FALSE(near_.lookup("x", kHang).ok());
  EXPECT_FALSE(near_.open(landing_.descriptor(), kHang).ok());
  EXPECT_FALSE(near_.wait_notification(kHang).ok());
}

TEST_P(Closing, EndsTheOwnThreadsThatWait) {
  auto notification =
      std::async(std::launch::async, [&] { return near_.wait_notification(kHang).status(); });
  auto lookup = std::async(std::launch::async, [&] { return near_.lookup("x", kHang).status(); });
  EXPECT_EQ(notification.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  EXPECT_OK(near_.close(kHang));
  EXPECT_CODE(kCancelled, notification.get());
  EXPECT_FALSE(lookup.get().ok());
}

TEST_P(Closing, ADeviceEndsItsAcceptsAndItsChannels) {
  auto accepted = std::async(std::launch::async, [&] { return far_device_.accept(kHang).ok(); });
  EXPECT_EQ(accepted.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  EXPECT_OK(far_device_.close(kHang));
  EXPECT_FALSE(accepted.get());
  EXPECT_FALSE(far_.notify(1).wait(kHang).ok());
  EXPECT_FALSE(far_device_.allocate(64).ok());
  EXPECT_TRUE(eventually([&] { return near_.peer_state() == PeerState::kClosed; }));
}

TEST_P(Closing, NoByteOfThePeerLandsAfterAChannelWasClosed) {
  constexpr std::uint64_t kBytes = 64 << 10;
  land(kBytes);
  const std::vector<std::byte> ones = make_bytes(kBytes, 1), twos = make_bytes(kBytes, 2);
  std::atomic<int> rounds{0}, failures{0};
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    for (; !stop; ++rounds) {
      const auto& bytes = rounds % 2 == 0 ? ones : twos;
      if (!wait_until_settled(near_.write({bytes.data(), kBytes}, target_)).ok()) ++failures;
    }
  });
  EXPECT_TRUE(eventually([&] { return rounds > 5; }));
  EXPECT_OK(far_.close(kHang));
  const std::vector<std::byte> before(landing_.data(), landing_.data() + kBytes);
  EXPECT_TRUE(eventually([&] { return failures > 20; }));
  stop = true;
  writer.join();
  EXPECT_EQ(std::memcmp(before.data(), landing_.data(), kBytes), 0);
}

TEST_P(Closing, UnderTrafficEndsEveryThread) {
  land(64 << 10);
  const std::vector<std::byte> bytes = make_bytes(64 << 10, 1);
  std::atomic<int> rounds{0};
  const auto until_error = [&](std::function<Status()> step) {
    return std::thread([&rounds, step = std::move(step)] {
      Status status;
      while (status.ok()) {
        status = step();
        ++rounds;
      }
      EXPECT_NE(status.code(), StatusCode::kDeadlineExceeded) << "it hung";
    });
  };
  std::vector<std::thread> threads;
  threads.push_back(until_error(
      [&] { return wait_until_settled(near_.write({bytes.data(), bytes.size()}, target_)); }));
  threads.push_back(until_error([&] { return near_.flush().wait(kHang); }));
  threads.push_back(until_error([&] { return near_.notify(1, lanes() - 1).wait(kHang); }));
  threads.push_back(until_error([&] { return far_.notify(2).wait(kHang); }));
  threads.push_back(until_error([&] { return far_.wait_notification(kHang).status(); }));
  threads.push_back(until_error([&] { return near_.wait_notification(kHang).status(); }));
  EXPECT_TRUE(eventually([&] { return rounds > 300; }));
  EXPECT_OK(near_.close(kHang));
  for (std::thread& thread : threads) thread.join();
}

TEST_P(Closing, MemoryOutlivesChannelAndDeviceForThoseWhoHoldIt) {
  land(1000);
  const std::vector<std::byte> bytes = make_bytes(1000, 3);
  ASSERT_OK(near_.write({bytes.data(), 1000}, target_).wait(kHang));
  ASSERT_OK(near_.flush().wait(kHang));
  EXPECT_OK(far_.close(kHang));
  EXPECT_OK(far_device_.close(kHang));
  far_ = Channel();
  far_device_ = Device();
  EXPECT_TRUE(holds(landing_.data(), 1000, 3));
  landing_.data()[0] = std::byte{0};  // still ours, still mapped
}

TEST_P(Closing, TheCountersBalance) {
  constexpr std::uint32_t kRounds = 30;
  for (std::uint32_t i = 0; i < kRounds; ++i) {
    show(make_bytes(1000, i));
    land(1000);
    std::vector<std::byte> bytes(1000);
    ASSERT_OK(near_.read({bytes.data(), 1000}, source_).wait(kHang));
    ASSERT_OK(near_.write_with_notify({bytes.data(), 1000}, target_, 0, i).wait(kHang));
    ASSERT_OK(near_.send({bytes.data(), 10}, i).wait(kHang));
    ASSERT_OK(far_.wait_notification(kHang));
    ASSERT_OK(far_.wait_notification(kHang));
  }
  source_ = target_ = RemoteRegion();
  EXPECT_TRUE(eventually([&] {
    const ChannelStats stats = far_.stats();
    return stats.leases_released == stats.leases_granted;
  }));
  // A fabric may have to ask the peer before memory is free again.
  EXPECT_TRUE(eventually([&] { return far_.stats().quarantined_bytes == 0; }));
  const ChannelStats near_stats = near_.stats(), far_stats = far_.stats();
  EXPECT_GE(far_stats.leases_granted, kRounds);
  EXPECT_EQ(near_stats.leases_held, 0U);
  EXPECT_EQ(near_stats.notifications_sent, kRounds);
  EXPECT_EQ(far_stats.notifications_received, kRounds);
  EXPECT_EQ(near_stats.messages_sent, kRounds);
  EXPECT_EQ(far_stats.messages_received, kRounds);
  shown_ = landing_ = MemoryRegion();
  EXPECT_OK(near_.close(kHang));
  EXPECT_OK(far_.close(kHang));
  EXPECT_TRUE(eventually([&] {
    const DeviceStats stats = far_device_.stats();
    return stats.channels_open == 0 && stats.send.used == 0 && stats.receive.used == 0;
  }));
  EXPECT_EQ(far_device_.stats().leases_held_by_peers, 0U);
  EXPECT_EQ(far_device_.stats().channels_opened, 1U);
}

using Leaks = Conformance;

TEST_P(Leaks, NoDescriptorIsLeftBehind) {
  const auto round = [&] {
    Device near_device = open(), far_device = open();
    for (int i = 0; i < 3; ++i) {
      ChannelPair pair = connect(near_device, far_device);
      auto shown = far_device.allocate(3 << 20), landing = pair.far.allocate(3 << 20);
      ASSERT_OK(shown);
      ASSERT_OK(landing);
      EXPECT_OK(pair.near.open(shown->descriptor(), kHang));
      EXPECT_OK(pair.near.open(landing->descriptor(), kHang));
      if (i == 0) {
        EXPECT_OK(pair.near.close(kHang));
      }
    }
    if (lanes() > 1) {
      EXPECT_OK(near_device.close(kHang));
    }
  };
  round();  // what the process opens once and keeps
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 5; ++i) round();
  EXPECT_TRUE(eventually([&] { return open_descriptors() <= before; }))
      << before << " descriptors before, " << open_descriptors() << " after";
}

FARWRITE_EVERY_FABRIC(Closing);
FARWRITE_ENCRYPTED_TOO(Closing);
FARWRITE_EVERY_FABRIC(Leaks);
FARWRITE_ENCRYPTED_TOO(Leaks);

}  // namespace
}  // namespace farwrite
