// Memory lent with a message: what the peer sees, and when it comes back.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

// What a lender counts: how often `returned` ran.
using Count = std::atomic<std::uint32_t>;

// How a receiver looks at lent memory: an alias where the fabric maps, else a copy that it reads.
class Sight {
 public:
  Sight() = default;
  Sight(const Channel& channel, const RemoteRegion& lent, std::uint64_t offset, std::uint64_t bytes)
      : region_(lent) {
    Channel handle = channel;
    auto alias = handle.alias(lent, offset, bytes);
    status_ = alias.status();
    if (alias.ok()) {
      alias_ = *std::move(alias);
      return;
    }
    if (status_.code() != StatusCode::kUnsupported) return;
    copy_.resize(bytes);
    status_ = wait_until_settled(handle.read({copy_.data(), bytes}, lent, offset));
  }
  const Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }
  const std::byte* data() const { return copy_.empty() ? alias_.data() : copy_.data(); }

 private:
  RemoteRegion region_;
  Alias alias_;
  std::vector<std::byte> copy_;
  Status status_;
};

class Lending : public ConformancePair {
 protected:
  // Ends what is out, while the members that it counts in are there.
  void TearDown() override {
    EXPECT_OK(near_device_.close(kHang));
    EXPECT_OK(far_device_.close(kHang));
    for (std::byte* memory : raw_) near_device_.free_raw(memory);
  }

  // Memory of the near device, filled with make_bytes(bytes, seed).
  std::byte* fill(std::size_t bytes, std::uint32_t seed) {
    std::byte* const memory = near_device_.allocate_raw(bytes);
    EXPECT_NE(memory, nullptr);
    raw_.push_back(memory);
    const std::vector<std::byte> content = make_bytes(bytes, seed);
    std::memcpy(memory, content.data(), bytes);
    return memory;
  }
  Completion lend(const std::byte* memory, std::size_t bytes, std::uint32_t tag = 0,
                  std::uint32_t lane = 0) {
    return near_.lend({"hello", 5}, {memory, bytes}, [this] { ++returned_; }, tag, lane);
  }
  // The next lend at the far end, which must hold make_bytes(bytes, seed).
  RemoteRegion take(std::size_t bytes, std::uint32_t seed) {
    auto notification = far_.wait_notification(kHang);
    EXPECT_OK(notification);
    if (!notification.ok() || !notification->lent.valid()) return {};
    Sight alias(far_, notification->lent, 0, bytes);
    EXPECT_OK(alias.status());
    EXPECT_TRUE(alias.ok() && holds(alias.data(), bytes, seed));
    return notification->lent;
  }

  Count returned_{0};
  std::vector<std::byte*> raw_;
};

TEST_P(Lending, BytesAreSeenAndReturnedOnceWithTheLastHandle) {
  constexpr std::size_t kBytes = 100'000;
  const std::byte* const memory = fill(kBytes, 3);
  ASSERT_OK(lend(memory, kBytes, 7, lanes() - 1).wait(kHang));
  auto notification = far_.wait_notification(kHang);
  ASSERT_OK(notification);
  EXPECT_EQ(notification->tag, 7U);
  EXPECT_EQ(notification->lane, lanes() - 1);
  EXPECT_EQ(notification->message.size(), 5U);
  EXPECT_EQ(std::memcmp(notification->message.data(), "hello", 5), 0);
  ASSERT_TRUE(notification->lent.valid());
  EXPECT_EQ(notification->lent.size(), kBytes);
  EXPECT_EQ(notification->lent.access(), Access::kRead);
  Sight alias(far_, notification->lent, 0, kBytes);
  ASSERT_OK(alias.status());
  EXPECT_TRUE(holds(alias.data(), kBytes, 3));
  std::vector<std::byte> copy(kBytes);
  ASSERT_OK(far_.read({copy.data(), kBytes}, notification->lent).wait(kHang));
  EXPECT_TRUE(holds(copy.data(), kBytes, 3));
  EXPECT_EQ(near_.stats().leases_granted, 1U);
  EXPECT_EQ(far_.stats().leases_held, 1U);

  *notification = Notification();
  EXPECT_EQ(returned_, 0U) << "the alias still looks at it";
  alias = Sight();
  EXPECT_TRUE(eventually([&] { return returned_ == 1; }));
  EXPECT_EQ(near_.stats().leases_released, 1U);
  EXPECT_EQ(far_.stats().leases_held, 0U);
  ASSERT_OK(near_.close(kHang));
  ASSERT_OK(far_.close(kHang));
  EXPECT_EQ(returned_, 1U);
}

TEST_P(Lending, AnyRangeOfSendMemoryMayBeLent) {
  auto region = near_device_.allocate(4096);
  ASSERT_OK(region);
  const std::vector<std::byte> content = make_bytes(4096, 5);
  std::memcpy(region->data(), content.data(), content.size());
  ASSERT_OK(lend(region->data() + 100, 200).wait(kHang));
  auto notification = far_.wait_notification(kHang);
  ASSERT_OK(notification);
  Sight alias(far_, notification->lent, 50, 100);
  ASSERT_OK(alias.status());
  EXPECT_EQ(std::memcmp(alias.data(), content.data() + 150, 100), 0);
  EXPECT_CODE(kOutOfRange, Sight(far_, notification->lent, 150, 51).status());
  ASSERT_OK(lend(region->data(), 0).wait(kHang));
  notification = far_.wait_notification(kHang);
  ASSERT_OK(notification);
  EXPECT_EQ(notification->lent.size(), 0U);
  EXPECT_OK(Sight(far_, notification->lent, 0, 0).status());
}

TEST_P(Lending, OtherMemoryIsRefusedAndNeverReturned) {
  const std::vector<std::byte> own(64);
  EXPECT_CODE(kInvalidArgument, lend(own.data(), 64).wait(kHang));
  EXPECT_CODE(kInvalidArgument, lend(nullptr, 0).wait(kHang));
  auto landing = near_.allocate(64);
  ASSERT_OK(landing);
  EXPECT_CODE(kInvalidArgument, lend(landing->data(), 64).wait(kHang));
  const std::byte* const memory = fill(64, 1);
  EXPECT_CODE(kInvalidArgument, lend(memory, options().send_limit).wait(kHang));
  EXPECT_CODE(kInvalidArgument, lend(memory, 64, 0, lanes()).wait(kHang));
  ASSERT_OK(near_.close(kHang));
  EXPECT_CODE(kCancelled, lend(memory, 64).wait(kHang));
  EXPECT_EQ(returned_, 0U);
  EXPECT_EQ(near_.stats().leases_granted, 0U);
}

TEST_P(Lending, MessagesUpToTheMaximumArriveInLaneOrder) {
  const std::byte* const memory = fill(64, 1);
  const std::uint64_t most = near_.max_message_bytes();
  const std::vector<std::byte> message = make_bytes(most, 9);
  std::uint32_t tag = 0;
  for (const std::uint64_t size : std::vector<std::uint64_t>{0, 1, 8, 9, 255, most}) {
    (void)near_.notify(tag++);
    (void)near_.lend({message.data(), size}, {memory, 64}, [&] { ++returned_; }, tag++);
    (void)near_.send({message.data(), 3}, tag++);
  }
  EXPECT_CODE(kInvalidArgument, near_.lend({message.data(), most + 1}, {memory, 64}, [] {}).wait());
  for (std::uint32_t next = 0; next < tag; ++next) {
    auto notification = far_.wait_notification(kHang);
    ASSERT_OK(notification);
    EXPECT_EQ(notification->tag, next);
    EXPECT_EQ(notification->lent.valid(), next % 3 == 1);
    EXPECT_TRUE(holds(notification->message.data(), next % 3 == 2 ? 3 : 0, 9));
    if (next % 3 == 1) {
      EXPECT_TRUE(
          std::equal(notification->message.begin(), notification->message.end(), message.begin()));
    }
  }
  EXPECT_TRUE(eventually([&] { return returned_ == tag / 3; }));
}

TEST_P(Lending, OverTheQuotaIsRefusedUntilSomethingComesBack) {
  DeviceOptions narrow = options();
  narrow.send_limit_per_peer = 1000;
  Device lender = open(narrow);
  ChannelPair pair = connect(lender, far_device_);
  ASSERT_TRUE(pair.near.valid());
  auto region = lender.allocate(600);
  ASSERT_OK(region);
  Count never{0};
  ASSERT_OK(pair.near.lend({}, {region->data(), 600}, [&] { ++returned_; }).wait(kHang));
  EXPECT_CODE(kResourceExhausted,
              pair.near.lend({}, {region->data(), 600}, [&] { ++never; }).wait(kHang));
  EXPECT_EQ(pair.near.stats().leases_granted, 1U);
  auto notification = pair.far.wait_notification(kHang);
  ASSERT_OK(notification);
  *notification = Notification();
  EXPECT_TRUE(eventually([&] { return returned_ == 1; }));
  ASSERT_OK(pair.near.lend({}, {region->data(), 600}, [&] { ++returned_; }).wait(kHang));
  ASSERT_OK(lender.close(kHang));
  EXPECT_EQ(returned_, 2U) << "a device that closes returns what is out";
  EXPECT_EQ(never, 0U);
}

TEST_P(Lending, ALenderThatTakesNothingStillHearsOfReturns) {
  constexpr std::uint32_t kCount = 3000;
  const std::byte* const memory = fill(4096, 2);
  // What the lender leaves in its lanes must not stand in the way.
  std::vector<Completion> unread;
  for (std::uint32_t i = 0; i < 2 * 4096; ++i) unread.push_back(far_.notify(i, i % lanes()));
  for (std::uint32_t i = 0; i < kCount; ++i) {
    (void)lend(memory, 4096, i, i % lanes());
    ASSERT_TRUE(take(4096, 2).valid());
  }
  EXPECT_TRUE(eventually([&] { return returned_ == kCount; })) << returned_;
  const ChannelStats stats = near_.stats();  // a fabric may have taken the tags off the wire
  EXPECT_LE(stats.notifications_received, unread.size()) << "a return is nothing for the user";
  EXPECT_EQ(stats.messages_received, 0U);
}

TEST_P(Lending, AFullRingHoldsThemBackAndLosesNone) {
  constexpr std::uint32_t kCount = 20'000;
  const std::byte* const memory = fill(64, 2);
  std::vector<Completion> lends;
  for (std::uint32_t i = 0; i < kCount; ++i) lends.push_back(lend(memory, 64, i));
  std::vector<Notification> taken;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    auto notification = far_.wait_notification(kHang);
    ASSERT_OK(notification);
    ASSERT_EQ(notification->tag, i);
    ASSERT_TRUE(notification->lent.valid());
    taken.push_back(*std::move(notification));
  }
  for (const Completion& completion : lends) EXPECT_OK(completion.wait(kHang));
  EXPECT_EQ(returned_, 0U);
  EXPECT_EQ(far_.stats().leases_held, kCount);
  taken.clear();  // a burst of returns, more than their lane holds
  EXPECT_TRUE(eventually([&] { return returned_ == kCount; })) << returned_;
  const ChannelStats stats = near_.stats();
  EXPECT_EQ(stats.leases_granted, kCount);
  EXPECT_EQ(stats.leases_released, kCount);
}

TEST_P(Lending, ManyThreadsLendAndReturnInBothDirections) {
  constexpr std::uint32_t kThreads = 4, kPerThread = 1500;
  Count seen{0}, wrong{0};
  const std::vector<std::byte> content = make_bytes(512, 8);
  std::mutex mutex;
  std::vector<Notification> kept;  // dropped by other threads than took them
  const auto serve = [&](Channel& channel) {
    return channel.on_notification([&](Notification notification) {
      auto alias = channel.alias(notification.lent, 0, 512);
      // The first view of a segment is none for a handler, and a read never is.
      if (alias.ok() && std::memcmp(alias->data(), content.data(), 512) != 0) ++wrong;
      const std::lock_guard<std::mutex> lock(mutex);
      kept.push_back(std::move(notification));
      ++seen;
    });
  };
  ASSERT_OK(serve(near_));
  ASSERT_OK(serve(far_));
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      Device& device = i % 2 == 0 ? near_device_ : far_device_;
      Channel& channel = i % 2 == 0 ? near_ : far_;
      for (std::uint32_t n = 0; n < kPerThread; ++n) {
        std::byte* const memory = device.allocate_raw(512);
        ASSERT_NE(memory, nullptr);
        std::memcpy(memory, content.data(), 512);
        (void)channel.lend(
            {&n, sizeof(n)}, {memory, 512},
            [&, memory] {
              device.free_raw(memory);
              ++returned_;
            },
            n, n % lanes());
        if (n % 16 != 0) continue;
        std::vector<Notification> dropped;
        const std::lock_guard<std::mutex> lock(mutex);
        dropped.swap(kept);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_TRUE(eventually([&] { return seen == kThreads * kPerThread; })) << seen;
  {
    const std::lock_guard<std::mutex> lock(mutex);
    kept.clear();
  }
  EXPECT_TRUE(eventually([&] { return returned_ == kThreads * kPerThread; })) << returned_;
  EXPECT_EQ(wrong, 0U);
  for (Channel* channel : {&near_, &far_}) {
    const ChannelStats stats = channel->stats();
    EXPECT_EQ(stats.leases_granted, stats.leases_released);
    EXPECT_EQ(stats.leases_held, 0U);
  }
  EXPECT_EQ(near_device_.stats().send.used, 0U);
  EXPECT_EQ(far_device_.stats().send.used, 0U);
}

TEST_P(Lending, WhatWasLentBeforeALenderClosedIsStillSeenAndReturned) {
  const std::byte* const memory = fill(4096, 6);
  for (int i = 0; i < 3; ++i) ASSERT_OK(lend(memory, 4096).wait(kHang));
  ASSERT_OK(near_.close(kHang));
  EXPECT_TRUE(eventually([&] { return far_.peer_state() == PeerState::kClosed; }));
  std::vector<RemoteRegion> held;
  for (int i = 0; i < 3; ++i) held.push_back(take(4096, 6));
  EXPECT_FALSE(far_.wait_notification(kHang).ok());
  EXPECT_EQ(returned_, 0U);
  held.pop_back();
  EXPECT_TRUE(eventually([&] { return returned_ == 1; }));
  held.clear();
  EXPECT_TRUE(eventually([&] { return returned_ == 3; }));
}

TEST_P(Lending, APeerThatClosesReturnsWhatItNeverTookAndKeepsWhatItViews) {
  const std::byte* const memory = fill(4096, 6);
  for (int i = 0; i < 4; ++i) ASSERT_OK(lend(memory, 4096).wait(kHang));
  RemoteRegion taken = take(4096, 6);
  Sight alias(far_, taken, 0, 4096);
  ASSERT_OK(alias.status());
  (void)far_.try_notification();  // taken and dropped
  ASSERT_OK(far_.close(kHang));
  EXPECT_TRUE(holds(alias.data(), 4096, 6));
  taken = RemoteRegion();
  EXPECT_LT(returned_, 4U);
  alias = Sight();
  EXPECT_TRUE(eventually([&] { return returned_ == 4; })) << returned_;
  EXPECT_EQ(near_.stats().leases_granted, near_.stats().leases_released);
  EXPECT_FALSE(lend(memory, 4096).wait(kHang).ok());
  EXPECT_EQ(returned_, 4U);
}

TEST_P(Lending, ADeviceThatClosesWithViewsOutLeavesThemReadable) {
  auto region = near_device_.allocate(4096);
  ASSERT_OK(region);
  const std::vector<std::byte> content = make_bytes(4096, 4);
  std::memcpy(region->data(), content.data(), 4096);
  ASSERT_OK(lend(region->data(), 4096).wait(kHang));
  RemoteRegion taken = take(4096, 4);
  Sight alias(far_, taken, 0, 4096);
  ASSERT_OK(alias.status());
  ASSERT_OK(near_device_.close(kHang));
  EXPECT_EQ(returned_, 1U);
  ASSERT_OK(far_device_.close(kHang));
  EXPECT_TRUE(holds(alias.data(), 4096, 4));
}

FARWRITE_EVERY_FABRIC(Lending);
FARWRITE_ENCRYPTED_TOO(Lending);

}  // namespace
}  // namespace farwrite
