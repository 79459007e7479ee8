// What was posted before the peer closed ends as it would have without the peer's BYE.
//
// BYE travels on another connection than the bytes, so it may overtake what ends an operation. The
// tests hold up the only poller of a device in a callback, so BYE comes first every time.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <vector>

#include "conformance/conformance.h"

namespace farwrite {
namespace {

// More than the buffers of two sockets hold.
constexpr std::uint64_t kMuch = std::uint64_t{32} << 20;
constexpr std::uint32_t kHold = 1;
constexpr std::uint32_t kGoodbyeDone = 2;

class Goodbye : public Conformance {
 protected:
  void SetUp() override {
    Conformance::SetUp();
    if (IsSkipped()) return;
    // After BYE this is all that is left for an answer, and here the answers come.
    meet(kHang);
  }
  void meet(std::chrono::milliseconds detection_time) {
    DeviceOptions options = this->options();
    options.detection_time = detection_time;
    near_device_ = open(options);
    far_device_ = open(options);
    pair_ = connect(near_device_, far_device_);
    ASSERT_TRUE(pair_.near.valid());
  }

  // Holds up the poller of the side that has `channel`, until `go`. It takes every notification of
  // that channel from here on, and sets `done` at kGoodbyeDone.
  void hold_poller(Channel& channel, Channel& peer, const std::shared_future<void>& go) {
    held_ = false;
    ASSERT_OK(channel.on_notification([this, go](const Notification& notification) {
      if (notification.tag == kGoodbyeDone) done_ = true;
      if (notification.tag != kHold) return;
      held_ = true;
      (void)go.wait_for(kHang);
    }));
    ASSERT_OK(peer.notify(kHold).wait(kHang));
    ASSERT_TRUE(eventually([this] { return held_.load(); }));
  }
  bool near_has_read_bye() {
    return eventually([this] { return pair_.near.peer_state() == PeerState::kClosed; });
  }

  std::atomic<bool> held_{false}, done_{false};
  Device near_device_, far_device_;
  ChannelPair pair_;
};

TEST_P(Goodbye, LeavesAWriteThatThePeerHasTaken) {
  auto landing = pair_.far.allocate(kMuch);
  ASSERT_OK(landing);
  auto target = pair_.near.open(landing->descriptor(), kHang);
  ASSERT_OK(target);
  const std::vector<std::byte> bytes = make_bytes(kMuch, 1);
  std::promise<void> far_goes, near_goes;
  hold_poller(pair_.far, pair_.near, far_goes.get_future().share());
  const Completion first = pair_.near.write({bytes.data(), kMuch}, *target);
  const Completion last = pair_.near.write_with_notify({bytes.data(), 1}, *target, 0, kGoodbyeDone);
  ASSERT_FALSE(first.done());
  // One call of the poller ends both, in this order.
  first.on_done([go = near_goes.get_future().share()](const Status&) { (void)go.wait_for(kHang); });
  far_goes.set_value();
  ASSERT_TRUE(eventually([this] { return done_.load(); }));
  auto closed = std::async(std::launch::async, [this] { return far_device_.close(kHang); });
  EXPECT_TRUE(near_has_read_bye());
  near_goes.set_value();
  EXPECT_OK(wait_until_settled(last));
  EXPECT_OK(closed.get());
}

TEST_P(Goodbye, LeavesAFlushOfAWriteThatThePeerHasTaken) {
  auto landing = pair_.far.allocate(64);
  ASSERT_OK(landing);
  auto target = pair_.near.open(landing->descriptor(), kHang);
  ASSERT_OK(target);
  const std::vector<std::byte> bytes = make_bytes(64, 1);
  std::promise<void> near_goes;
  hold_poller(pair_.near, pair_.far, near_goes.get_future().share());
  EXPECT_OK(pair_.near.write_with_notify({bytes.data(), 64}, *target, 0, kGoodbyeDone).wait(kHang));
  const Completion flush = pair_.near.flush();
  ASSERT_OK(pair_.far.wait_notification(kHang));
  EXPECT_OK(far_device_.close(kHang));
  EXPECT_TRUE(near_has_read_bye());
  near_goes.set_value();
  EXPECT_OK(flush.wait(kHang));
}

// The peer's poller is busy with another channel, so it neither takes nor answers anything.
TEST_P(Goodbye, BoundsTheWaitForAPeerThatDoesNotAnswer) {
  meet(std::chrono::milliseconds(500));
  ChannelPair other = connect(near_device_, far_device_);
  ASSERT_TRUE(other.near.valid());
  auto landing = pair_.far.allocate(kMuch);
  ASSERT_OK(landing);
  auto target = pair_.near.open(landing->descriptor(), kHang);
  ASSERT_OK(target);
  const std::vector<std::byte> bytes = make_bytes(kMuch, 1);
  std::promise<void> far_goes;
  hold_poller(other.far, other.near, far_goes.get_future().share());
  const Completion write = pair_.near.write({bytes.data(), kMuch}, *target);
  const Completion flush = pair_.near.flush();
  ASSERT_FALSE(write.done());
  EXPECT_OK(pair_.far.close(kHang));
  EXPECT_CODE(kUnavailable, write.wait(kHang));
  EXPECT_CODE(kUnavailable, flush.wait(kHang));
  far_goes.set_value();
  EXPECT_TRUE(eventually([&] { return write.settled(); }));
}

// Where memory is mapped, writes and flushes are over when their calls return, and only a
// notification without room ends later.
class GoodbyeToTheBacklog : public Goodbye {};

TEST_P(GoodbyeToTheBacklog, LeavesANotificationThatThePeerHasTaken) {
  std::promise<void> near_goes, far_goes, first_goes;
  hold_poller(pair_.near, pair_.far, near_goes.get_future().share());
  hold_poller(pair_.far, pair_.near, far_goes.get_future().share());
  std::uint64_t posted = 0;
  Completion first = pair_.near.notify(0);
  for (; first.done(); ++posted) first = pair_.near.notify(0);
  const Completion last = pair_.near.notify(kGoodbyeDone);
  ASSERT_FALSE(last.done());
  // One call of the poller ends both, in this order, since it finds room for both.
  first.on_done(
      [go = first_goes.get_future().share()](const Status&) { (void)go.wait_for(kHang); });
  far_goes.set_value();
  ASSERT_TRUE(eventually([&] { return pair_.far.stats().notifications_received > posted; }));
  near_goes.set_value();
  ASSERT_TRUE(eventually([this] { return done_.load(); }));
  auto closed = std::async(std::launch::async, [this] { return far_device_.close(kHang); });
  EXPECT_TRUE(near_has_read_bye());
  first_goes.set_value();
  EXPECT_OK(last.wait(kHang));
  EXPECT_OK(closed.get());
}

INSTANTIATE_TEST_SUITE_P(ShmAndTcp, GoodbyeToTheBacklog,
                         testing::Values(Variant{FabricKind::kShm, 1, 1},
                                         Variant{FabricKind::kTcp, 1, 1}),
                         variant_name);
INSTANTIATE_TEST_SUITE_P(Tcp, Goodbye, testing::Values(Variant{FabricKind::kTcp, 1, 1}),
                         variant_name);
FARWRITE_ENCRYPTED_TOO(Goodbye);

}  // namespace
}  // namespace farwrite
