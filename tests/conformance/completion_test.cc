// What a Completion promises to those who wait, call back or give up.
#include <atomic>
#include <thread>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

using Completions = ConformancePair;

TEST_P(Completions, AnOutcomeStaysAndIsSharedByCopies) {
  land(64);
  const std::byte byte{1};
  const Completion good = near_.write({&byte, 1}, target_);
  const Completion copy = good;
  for (int i = 0; i < 2; ++i) {
    EXPECT_OK(good.wait(kHang));
    EXPECT_OK(copy.wait(std::chrono::nanoseconds(0)));
    EXPECT_TRUE(copy.done());
  }
  const Completion bad = near_.write({&byte, 1}, target_, 1000);
  for (int i = 0; i < 2; ++i) EXPECT_CODE(kOutOfRange, bad.wait(kHang));
  EXPECT_TRUE(bad.settled());
}

TEST_P(Completions, ACallbackRunsOnceWithTheOutcome) {
  land(64 << 10);
  const std::vector<std::byte> bytes = make_bytes(64 << 10, 1);
  std::atomic<int> good{0}, bad{0};
  std::vector<Completion> completions;
  for (int i = 0; i < 100; ++i) {
    completions.push_back(near_.write({bytes.data(), bytes.size()}, target_));
    completions.back().on_done([&](const Status& status) { ++(status.ok() ? good : bad); });
  }
  for (const Completion& completion : completions) ASSERT_OK(completion.wait(kHang));
  near_.write({bytes.data(), 1}, target_, 1 << 20).on_done([&](const Status& status) {
    ++(status.ok() ? good : bad);
  });
  EXPECT_TRUE(eventually([&] { return good + bad == 101; }));
  EXPECT_EQ(good, 100);
  EXPECT_EQ(bad, 1);
  completions[0].on_done([&](const Status&) { ++good; });
  EXPECT_EQ(good, 101) << "of an operation that is over, at once and in this thread";
}

TEST_P(Completions, ACancelledOperationSettlesByItself) {
  constexpr std::uint64_t kBytes = 1 << 20;
  land(kBytes);
  const std::vector<std::byte> bytes = make_bytes(kBytes, 1);
  for (int i = 0; i < 20; ++i) {
    const Completion completion = near_.write({bytes.data(), kBytes}, target_);
    completion.cancel();
    const Status outcome = wait_until_settled(completion);
    EXPECT_TRUE(outcome.ok() || outcome.code() == StatusCode::kCancelled) << outcome.to_string();
    EXPECT_TRUE(completion.done());
  }
  EXPECT_OK(near_.flush().wait(kHang));
}

TEST_P(Completions, DroppingOneAbandonsNothing) {
  land(64 << 10);
  const std::vector<std::byte> bytes = make_bytes(64 << 10, 7);
  (void)near_.write_with_notify({bytes.data(), bytes.size()}, target_, 0, 1);
  ASSERT_OK(far_.wait_notification(kHang));
  EXPECT_TRUE(holds(landing_.data(), bytes.size(), 7));
}

TEST_P(Completions, OutliveTheirChannelAndDevice) {
  land(64);
  const std::byte byte{1};
  const Completion written = near_.write({&byte, 1}, target_);
  const Completion flushed = near_.flush();
  target_ = RemoteRegion();
  EXPECT_OK(near_.close(kHang));
  near_ = Channel();
  (void)near_device_.close(std::chrono::seconds(1));
  near_device_ = Device();
  for (const Completion& completion : {written, flushed}) {
    const Status outcome = wait_until_settled(completion);
    EXPECT_TRUE(outcome.ok() || outcome.code() == StatusCode::kCancelled) << outcome.to_string();
  }
}

FARWRITE_EVERY_FABRIC(Completions);

}  // namespace
}  // namespace farwrite
