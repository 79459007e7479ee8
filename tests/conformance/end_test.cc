// How a user learns that the peer has gone.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

using Count = std::atomic<std::uint32_t>;
using Ends = ConformancePair;

TEST_P(Ends, ComeOnceAfterTheLastNotification) {
  Count taken{0}, ends{0};
  std::atomic<std::uint32_t> taken_at_end{0};
  std::atomic<bool> good{false};
  ASSERT_OK(far_.on_notification([&](Notification) { ++taken; }));
  ASSERT_OK(far_.on_end([&](bool good_order, const Status& reason) {
    good = good_order;
    EXPECT_FALSE(reason.ok());
    taken_at_end = taken.load();
    ++ends;
  }));
  for (std::uint32_t i = 0; i < 500; ++i) (void)near_.notify(i, i % lanes());
  ASSERT_OK(near_.notify(500).wait(kHang));
  EXPECT_TRUE(eventually([&] { return taken == 501; }));
  EXPECT_EQ(ends, 0U);
  ASSERT_OK(near_.close(kHang));
  EXPECT_TRUE(eventually([&] { return ends == 1; }));
  EXPECT_EQ(taken_at_end, 501U);
  EXPECT_TRUE(good);
  // At once, now that it is over.
  bool told = false;
  ASSERT_OK(far_.on_end([&](bool, const Status&) { told = true; }));
  EXPECT_TRUE(told);
  EXPECT_EQ(ends, 1U);
}

TEST_P(Ends, OfOurOwnMakingAreNotTold) {
  Count ends{0};
  ASSERT_OK(near_.on_end([&](bool, const Status&) { ++ends; }));
  ASSERT_OK(near_.close(kHang));
  ASSERT_OK(far_.close(kHang));
  ASSERT_OK(near_device_.close(kHang));
  EXPECT_EQ(ends, 0U);
  EXPECT_CODE(kCancelled, near_.on_end([](bool, const Status&) {}));
}

TEST_P(Ends, OfEitherSideEndTheWaitOfAThreadThatPolls) {
  DeviceOptions polls = options();
  polls.spin = std::chrono::hours(1);
  Device device = open(polls);
  for (const bool ours : {true, false}) {
    ChannelPair pair = connect(device, far_device_);
    std::atomic<bool> polls_now{false}, over{false};
    Status outcome;
    std::thread waits([&] {
      polls_now = true;
      outcome = pair.near.wait_notification(2 * kHang).status();
      over = true;
    });
    EXPECT_TRUE(eventually([&] { return polls_now.load(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    ASSERT_OK((ours ? pair.near : pair.far).close(kHang));
    EXPECT_TRUE(eventually([&] { return over.load(); })) << ours;
    waits.join();
    EXPECT_EQ(outcome.code(), ours ? StatusCode::kCancelled : StatusCode::kUnavailable)
        << outcome.to_string();
  }
}

FARWRITE_EVERY_FABRIC(Ends);
FARWRITE_ENCRYPTED_TOO(Ends);

}  // namespace
}  // namespace farwrite
