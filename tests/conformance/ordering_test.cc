// What may be believed about bytes and notifications, and when.
#include <thread>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

using Ordering = ConformancePair;

constexpr std::uint64_t kSlot = 4096;

TEST_P(Ordering, FlushMakesEveryEarlierWriteVisible) {
  constexpr std::uint32_t kWrites = 200;
  land(kWrites * kSlot);
  std::vector<std::vector<std::byte>> sources;
  for (std::uint32_t i = 0; i < kWrites; ++i) sources.push_back(make_bytes(kSlot, i));
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    (void)near_.write({sources[i].data(), kSlot}, target_, i * kSlot, i % lanes());
  }
  ASSERT_OK(near_.flush().wait(kHang));
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    EXPECT_TRUE(holds(landing_.data() + i * kSlot, kSlot, i)) << "write " << i;
  }
}

TEST_P(Ordering, FlushCoversTheWritesOfOtherThreads) {
  constexpr std::uint32_t kThreads = 4, kWrites = 50;
  land(kThreads * kWrites * kSlot);
  std::vector<std::vector<std::byte>> sources;
  for (std::uint32_t i = 0; i < kThreads * kWrites; ++i) sources.push_back(make_bytes(kSlot, i));
  std::vector<std::thread> threads;
  for (std::uint32_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (std::uint32_t i = t * kWrites; i < (t + 1) * kWrites; ++i) {
        (void)near_.write({sources[i].data(), kSlot}, target_, i * kSlot, i % lanes());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ASSERT_OK(near_.flush().wait(kHang));
  for (std::uint32_t i = 0; i < kThreads * kWrites; ++i) {
    EXPECT_TRUE(holds(landing_.data() + i * kSlot, kSlot, i)) << "write " << i;
  }
}

TEST_P(Ordering, ANotificationComesAfterEveryByteOfItsWrite) {
  constexpr std::uint32_t kWrites = 500;
  land(kWrites * kSlot);
  std::vector<std::vector<std::byte>> sources;
  for (std::uint32_t i = 0; i < kWrites; ++i) sources.push_back(make_bytes(kSlot, i));
  std::thread writer([&] {
    for (std::uint32_t i = 0; i < kWrites; ++i) {
      (void)near_.write_with_notify({sources[i].data(), kSlot}, target_, i * kSlot, i, i % lanes());
    }
  });
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    auto notification = far_.wait_notification(kHang);
    EXPECT_OK(notification);
    if (!notification.ok()) break;
    EXPECT_TRUE(holds(landing_.data() + notification->tag * kSlot, kSlot, notification->tag))
        << "write " << notification->tag << " was notified before it landed";
  }
  writer.join();
}

TEST_P(Ordering, OneLaneKeepsTheOrderOfNotificationsOfAllKinds) {
  constexpr std::uint32_t kPerLane = 300;
  land(kPerLane * lanes() * 64);
  const std::vector<std::byte> source = make_bytes(64, 1);
  std::vector<Completion> completions;
  for (std::uint32_t i = 0; i < kPerLane; ++i) {
    for (std::uint32_t lane = 0; lane < lanes(); ++lane) {
      if (i % 3 == 0) {
        completions.push_back(near_.notify(i, lane));
      } else if (i % 3 == 1) {
        completions.push_back(near_.send({source.data(), 5}, i, lane));
      } else {
        completions.push_back(near_.write_with_notify({source.data(), 64}, target_,
                                                      (i * lanes() + lane) * 64, i, lane));
      }
    }
  }
  std::vector<std::uint32_t> expected(lanes(), 0);
  for (std::uint32_t i = 0; i < kPerLane * lanes(); ++i) {
    auto notification = far_.wait_notification(kHang);
    ASSERT_OK(notification);
    ASSERT_LT(notification->lane, lanes());
    ASSERT_EQ(notification->tag, expected[notification->lane]++) << "lane " << notification->lane;
    ASSERT_EQ(notification->message.size(), notification->tag % 3 == 1 ? 5U : 0U);
  }
  for (const Completion& completion : completions) EXPECT_OK(completion.wait(kHang));
}

TEST_P(Ordering, TheSourceMayBeReusedOnceTheWriteIsLocalComplete) {
  constexpr std::uint32_t kWrites = 200;
  land(kWrites * kSlot);
  std::vector<std::byte> source(kSlot);
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    source = make_bytes(kSlot, i);
    ASSERT_OK(near_.write({source.data(), kSlot}, target_, i * kSlot, i % lanes()).wait(kHang));
    std::fill(source.begin(), source.end(), std::byte{0});
  }
  ASSERT_OK(near_.flush().wait(kHang));
  for (std::uint32_t i = 0; i < kWrites; ++i) {
    EXPECT_TRUE(holds(landing_.data() + i * kSlot, kSlot, i)) << "write " << i;
  }
}

TEST_P(Ordering, AFlushWithoutWritesEnds) { EXPECT_OK(near_.flush().wait(kHang)); }

FARWRITE_EVERY_FABRIC(Ordering);
FARWRITE_ENCRYPTED_TOO(Ordering);

}  // namespace
}  // namespace farwrite
