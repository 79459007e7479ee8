// A peer is stopped: silent, not dead. Nothing fails, nothing is reused, and it may come back.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "fault/child_process.h"
#include "fault/fixture.h"

namespace farwrite::fault {
namespace {

class StoppedPeer : public FaultTest {
 protected:
  std::string endpoint() const { return device_.endpoint().to_string(); }
  Channel accept() { return device_.accept(kPatience).value(); }
  static bool becomes(Channel& channel, PeerState state) {
    return eventually([&] { return channel.peer_state() == state; });
  }

  // A child in the middle of a write of 1 MiB into `region_`, and stopped there.
  void stop_in_a_write() {
    child_.emplace("stuck writer", std::vector<std::string>{endpoint()});
    channel_ = accept();
    region_ = channel_.allocate(1 << 20).value();
    std::memset(region_.data(), 0, region_.size());
    ASSERT_TRUE(channel_.publish("landing", region_).ok());
    child_->wait_for("inside");
    child_->stop();
    ASSERT_TRUE(becomes(channel_, PeerState::kSilent));
  }

  void TearDown() override {
    region_ = MemoryRegion();
    channel_ = Channel();
    child_.reset();
    (void)device_.close(kPatience);
    device_ = Device();
    FaultTest::TearDown();
  }

  Device device_ = open_device();
  std::optional<ChildProcess> child_;
  Channel channel_;
  MemoryRegion region_;
};

TEST_F(StoppedPeer, IsSilentAndThenAliveAgain) {
  ChildProcess child("echo", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  EXPECT_TRUE(becomes(channel, PeerState::kAlive));
  child.stop();
  EXPECT_TRUE(becomes(channel, PeerState::kSilent));
  EXPECT_GE(channel.stats().silences, 1u);
  EXPECT_TRUE(channel.notify(5).wait(kPatience).ok()) << "silence must not fail a notification";
  expect_error(channel.wait_notification(std::chrono::milliseconds(50)).status(),
               StatusCode::kDeadlineExceeded,
               {"the peer is silent, and no notification", "stopped"});
  child.resume();
  EXPECT_TRUE(becomes(channel, PeerState::kAlive));
  auto answer = channel.wait_notification(kPatience);
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  EXPECT_EQ(answer->tag, 5u);
}

// Both sides of a virtual machine, a container that is frozen, a debugger: all that was stopped is
// away itself, and has nothing to say of its peer's silence.
TEST_F(StoppedPeer, DoesNotCallItsOwnAbsenceSilenceOfItsPeer) {
  constexpr std::chrono::milliseconds kChildsDetection(1000);
  for (const FabricKind fabric : {FabricKind::kShm, FabricKind::kTcp}) {
    ChildProcess child("judge", {endpoint(), std::string(to_string(fabric)),
                                 std::to_string(kChildsDetection.count())});
    Channel channel = accept();
    child.wait_for("connected");
    for (int round = 0; round < 2; ++round) {
      child.stop();
      EXPECT_TRUE(becomes(channel, PeerState::kSilent));
      std::this_thread::sleep_for(kChildsDetection);
      child.resume();
      EXPECT_TRUE(becomes(channel, PeerState::kAlive));
      child.tell("count");
      EXPECT_EQ(child.wait_for("silences"), "0") << to_string(fabric);
    }
  }
}

TEST_F(StoppedPeer, FailsALookupAsSilentOnlyAfterItsDeadline) {
  ChildProcess child("echo", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  child.stop();
  ASSERT_TRUE(becomes(channel, PeerState::kSilent));
  expect_error(channel.lookup("x", std::chrono::milliseconds(300)).status(),
               StatusCode::kPeerSilent, {channel.peer().endpoint.to_string(), "silent", "stopped"});
  child.resume();
}

// A busy machine may delay any one of them.
TEST_F(StoppedPeer, ALookupTakesNoTimeBeyondItsOwn) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kLimit{100}, kNoise{80};
  DeviceOptions options = quick_options();
  options.detection_time = kPatience;  // not known to be silent yet
  Device device = open_device(options);
  ChildProcess child("echo", {device.endpoint().to_string()});
  Channel channel = device.accept(kPatience).value();
  child.wait_for("connected");
  child.stop();
  EXPECT_TRUE(eventually([&] {
    const Clock::time_point began = Clock::now();
    EXPECT_FALSE(channel.lookup("x", kLimit).ok());
    const Clock::duration took = Clock::now() - began;
    EXPECT_GE(took, kLimit);
    return took < kLimit + kNoise;
  }));
  child.resume();
  // Without time it is a look.
  EXPECT_TRUE(
      eventually([&] { return channel.lookup("x", {}).status().code() == StatusCode::kNotFound; }));
}

TEST_F(StoppedPeer, GetsItsBackloggedNotificationsInOrderOnce) {
  ChildProcess child("deaf", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  child.stop();
  std::vector<Completion> completions;
  constexpr std::uint32_t kCount = 10000;  // more than a ring holds
  for (std::uint32_t tag = 0; tag < kCount; ++tag) completions.push_back(channel.notify(tag));
  EXPECT_TRUE(becomes(channel, PeerState::kSilent));
  EXPECT_GT(channel.stats().backlogged, 0u);
  EXPECT_FALSE(completions.back().done());
  child.resume();
  child.tell("take " + std::to_string(kCount));
  child.wait_for("took all");
  for (const Completion& completion : completions) {
    ASSERT_TRUE(completion.wait(kPatience).ok()) << completion.wait().to_string();
  }
  EXPECT_TRUE(becomes(channel, PeerState::kAlive));
}

TEST_F(StoppedPeer, InAWriteKeepsItsMemoryQuarantinedUntilItGoesOn) {
  stop_in_a_write();
  expect_error(region_.close(std::chrono::milliseconds(50)), StatusCode::kPeerSilent,
               {"quarantined"});
  const std::byte* const memory = region_.data();
  const std::size_t used = device_.stats().receive.used;
  ASSERT_TRUE(channel_.publish("landing", channel_.allocate(64).value()).ok());  // replaces it
  region_ = MemoryRegion();
  EXPECT_GE(channel_.stats().quarantined_bytes, std::uint64_t{1} << 20);
  EXPECT_EQ(device_.stats().quarantined_bytes, channel_.stats().quarantined_bytes);
  EXPECT_GE(device_.stats().receive.used, used);
  std::vector<MemoryRegion> others;
  for (int i = 0; i < 8; ++i) {
    others.push_back(channel_.allocate(1 << 20).value());
    const std::byte* const data = others.back().data();
    EXPECT_TRUE(data + others.back().size() <= memory || data >= memory + (1 << 20))
        << "quarantined memory was handed out";
    std::memset(others.back().data(), 0x11, others.back().size());
  }
  child_->resume();
  child_->tell("go on");
  EXPECT_EQ(child_->wait_for("wrote"), "ok");
  EXPECT_TRUE(eventually([&] { return channel_.stats().quarantined_bytes == 0; }));
  EXPECT_NE(child_->wait_for("again").find("closed by its owner"), std::string::npos);
  for (const MemoryRegion& other : others) {
    EXPECT_EQ(std::count(other.data(), other.data() + other.size(), std::byte{0x11}), 1 << 20)
        << "the late write landed in somebody else's memory";
  }
}

TEST_F(StoppedPeer, InAWriteFreesItsMemoryWhenItIsKilled) {
  stop_in_a_write();
  ASSERT_TRUE(channel_.publish("landing", channel_.allocate(64).value()).ok());
  region_ = MemoryRegion();
  EXPECT_GE(channel_.stats().quarantined_bytes, std::uint64_t{1} << 20);
  child_->kill();
  expect_dead(channel_);
  EXPECT_TRUE(eventually([&] { return channel_.stats().quarantined_bytes == 0; }));
  EXPECT_TRUE(eventually([&] { return device_.stats().receive.used <= 64; }));
}

TEST_F(StoppedPeer, InAWriteMakesClosingTheChannelReportSilence) {
  stop_in_a_write();
  expect_error(channel_.close(std::chrono::milliseconds(50)), StatusCode::kPeerSilent,
               {"shm", "quarantined"});
}

// The wait for the peer uses up the caller's time, and the steps of the close behind it need time.
TEST_F(StoppedPeer, InAWriteIsReportedByTheDevicesCloseWhichEndsAllTheSame) {
  stop_in_a_write();
  const Endpoint listen = device_.endpoint();
  expect_error(device_.close(std::chrono::milliseconds(300)), StatusCode::kPeerSilent,
               {"quarantined"});
  DeviceOptions options;
  options.listen = listen;
  const Result<Device> next = Device::open(options);
  EXPECT_TRUE(next.ok()) << "the port is still taken: " << next.status().to_string();
}

TEST_F(StoppedPeer, InAWriteMakesClosingTheChannelReportSilenceForARegionWithoutAHandle) {
  stop_in_a_write();
  region_ = MemoryRegion();  // its name keeps it
  expect_error(channel_.close(std::chrono::milliseconds(50)), StatusCode::kPeerSilent,
               {"shm", "quarantined"});
}

TEST_F(StoppedPeer, InAWriteHoldsUpEveryThreadThatClosesTheChannel) {
  stop_in_a_write();
  Status first;
  std::thread closer([&] { first = channel_.close(kPatience); });
  ASSERT_TRUE(
      eventually([&] { return channel_.notify(1).wait().code() == StatusCode::kCancelled; }));
  Status short_wait = channel_.close(std::chrono::milliseconds(20));
  EXPECT_FALSE(short_wait.ok()) << "closed, it says, while the peer may still write";
  Status second;
  std::atomic<bool> returned{false};
  std::thread other([&] {
    second = channel_.close(kForever);
    returned.store(true);
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE(returned.load()) << "closed, it says, while the peer may still write";
  child_->kill();
  closer.join();
  other.join();
  EXPECT_TRUE(first.ok()) << first.to_string();
  EXPECT_TRUE(second.ok()) << second.to_string();
}

TEST_F(StoppedPeer, DoesNotDisturbAnotherPeer) {
  ChildProcess bystander("echo", {endpoint()});
  PingPong ping_pong(accept());
  stop_in_a_write();
  ping_pong.expect_undisturbed();
  (void)region_.close(std::chrono::milliseconds(50));
  ping_pong.expect_undisturbed();
  child_->resume();
  child_->tell("go on");
  child_->wait_for("wrote");
  ping_pong.expect_undisturbed();
}

}  // namespace
}  // namespace farwrite::fault
