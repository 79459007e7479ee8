// Operations that stay pending for as long as a test likes: only a simulated network can hold them.
#include <chrono>
#include <thread>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

class HeldBack : public ConformancePair {
 protected:
  void SetUp() override {
    ConformancePair::SetUp();
    network().partition(network().addresses().front(), true);
  }
  void heal() { network().partition(network().addresses().front(), false); }
};

TEST_P(HeldBack, TheEndOfAWaitIsNotTheEndOfTheOperation) {
  const Completion flushed = near_.flush();
  EXPECT_CODE(kDeadlineExceeded, flushed.wait(std::chrono::milliseconds(20)));
  EXPECT_FALSE(flushed.done());
  heal();
  EXPECT_OK(flushed.wait(kHang));
}

TEST_P(HeldBack, CancelEndsEveryWaitAndSettlesLater) {
  const Completion flushed = near_.flush();
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&] { EXPECT_CODE(kCancelled, flushed.wait(kHang)); });
  }
  flushed.cancel();
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_FALSE(flushed.settled());
  heal();
  EXPECT_TRUE(eventually([&] { return flushed.settled(); }));
  EXPECT_CODE(kCancelled, flushed.wait(kHang));
}

TEST_P(HeldBack, ClosingTheChannelEndsWhatIsPending) {
  const Completion flushed = near_.flush();
  (void)near_.close(std::chrono::seconds(1));
  EXPECT_CODE(kCancelled, flushed.wait(kHang));
  EXPECT_TRUE(eventually([&] { return flushed.settled(); }));
}

TEST_P(HeldBack, ThePeersDeathEndsWhatIsPending) {
  const Completion flushed = near_.flush();
  std::thread waiter([&] { EXPECT_CODE(kPeerDead, near_.wait_notification(kHang).status()); });
  network().kill(network().addresses().back());
  EXPECT_CODE(kPeerDead, flushed.wait(kHang));
  waiter.join();
  EXPECT_EQ(near_.peer_state(), PeerState::kDead);
  EXPECT_CODE(kPeerDead, near_.notify(1).wait(kHang));
}

INSTANTIATE_TEST_SUITE_P(Simulated, HeldBack,
                         testing::Values(Variant{fabric::kSimulated, 1, 1},
                                         Variant{fabric::kSimulated, 4, 2}),
                         variant_name);

}  // namespace
}  // namespace farwrite
