// A peer is killed: its death is proven, everything that waited for it ends, nothing else does.
#include <atomic>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "fault/child_process.h"
#include "fault/fixture.h"
#include "wire_tap.h"

namespace farwrite::fault {
namespace {

class KilledPeer : public FaultTest {
 protected:
  std::string endpoint() const { return device_.endpoint().to_string(); }
  Channel accept() { return device_.accept(kPatience).value(); }

  void TearDown() override {
    EXPECT_TRUE(device_.close(kPatience).ok());
    device_ = Device();
    FaultTest::TearDown();
  }

  Device device_ = open_device();
};

TEST_F(KilledPeer, IsDeadAlsoIfAChildOfItKeepsItsSocketsOpen) {
  ChildProcess child("idle parent", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  child.kill();
  expect_dead(channel);
}

// What it said last may be read after the proof that its process is gone.
TEST_F(KilledPeer, WasClosedNormallyIfItSaidSoJustBeforeItsEnd) {
  std::atomic<bool> held{true};
  WireTap tap;
  ChildProcess child("idle", {tap.relay({"127.0.0.1", 0}, device_.endpoint()).to_string()});
  Channel channel = accept();
  child.wait_for("connected");
  tap.set_filter([&held](bool forth, std::string&) {
    while (forth && held.load()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  });
  EXPECT_EQ(child.finish(), 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(10));
  EXPECT_NE(channel.peer_state(), PeerState::kDead);
  held.store(false);
  expect_error(channel.wait_notification(kPatience).status(), StatusCode::kUnavailable,
               {"the peer closed the channel"});
  expect_error(channel.notify(1).wait(kPatience), StatusCode::kUnavailable,
               {"the peer closed the channel"});
}

TEST_F(KilledPeer, LeavesWhatHadArrivedToBeTaken) {
  ChildProcess child("echo", {endpoint(), "aloud"});
  Channel channel = accept();
  ASSERT_TRUE(channel.notify(7).wait(kPatience).ok());
  ASSERT_TRUE(channel.notify(8).wait(kPatience).ok());
  // Both answers are in our ring once the second was taken out of the peer's.
  ASSERT_EQ(channel.wait_notification(kPatience).value().tag, 7u);
  ASSERT_EQ(channel.wait_notification(kPatience).value().tag, 8u);
  ASSERT_TRUE(channel.notify(9).wait(kPatience).ok());
  child.wait_for("sent 9");
  child.kill();
  expect_dead(channel);
  auto last = channel.wait_notification(kPatience);
  ASSERT_TRUE(last.ok()) << last.status().to_string();
  EXPECT_EQ(last->tag, 9u);
  expect_error(channel.wait_notification(kPatience).status(), StatusCode::kPeerDead, {});
}

TEST_F(KilledPeer, EndsALookupThatWaits) {
  ChildProcess child("idle", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  Status outcome;
  std::thread waiter([&] { outcome = channel.lookup("never", kForever).status(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  child.kill();
  waiter.join();
  expect_error(outcome, StatusCode::kPeerDead, {"process is gone"});
}

TEST_F(KilledPeer, LetsTheRegionItWasWritingBeClosed) {
  ChildProcess child("stuck writer", {endpoint()});
  Channel channel = accept();
  auto region = channel.allocate(1 << 20).value();
  ASSERT_TRUE(channel.publish("landing", region).ok());
  child.wait_for("inside");
  expect_error(region.close(std::chrono::milliseconds(50)), StatusCode::kPeerSilent,
               {channel.peer().endpoint.to_string(), "shm", "middle of a write", "quarantined"});
  child.kill();
  expect_dead(channel);
  EXPECT_TRUE(region.close(std::chrono::nanoseconds(0)).ok());
  EXPECT_TRUE(channel.close().ok());
}

TEST_F(KilledPeer, GivesBackItsLeases) {
  auto exported = device_.allocate(4096).value();
  ASSERT_TRUE(device_.publish("export", exported).ok());
  ChildProcess child("lessee", {endpoint()});
  Channel channel = accept();
  child.wait_for("holding");
  EXPECT_EQ(channel.stats().leases_granted, 2u);
  EXPECT_EQ(device_.stats().leases_held_by_peers, 2u);
  child.kill();
  expect_dead(channel);
  EXPECT_EQ(channel.stats().leases_released, 2u);
  EXPECT_EQ(device_.stats().leases_held_by_peers, 0u);
  ASSERT_TRUE(device_.unpublish("export").ok());
  exported = MemoryRegion();
  EXPECT_EQ(device_.stats().send.used, 0u);
}

TEST_F(KilledPeer, EndsWhatIsBacklogged) {
  ChildProcess child("deaf", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  std::vector<Completion> pending;
  for (std::uint32_t tag = 0; pending.size() < 1000; ++tag) {
    Completion completion = channel.notify(tag);
    if (!completion.done()) pending.push_back(completion);
  }
  EXPECT_EQ(channel.stats().backlogged, 1000u);
  child.kill();
  for (const Completion& completion : pending) {
    expect_error(completion.wait(kPatience), StatusCode::kPeerDead, {"process is gone"});
  }
  expect_dead(channel);
}

TEST_F(KilledPeer, EndsWhatManyThreadsAreJustPosting) {
  ChildProcess child("deaf", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  std::atomic<bool> dead{false};
  std::mutex mutex;
  std::vector<Completion> last;
  std::vector<std::thread> posters;
  for (int i = 0; i < 6; ++i) {
    posters.emplace_back([&] {
      std::vector<Completion> recent;
      while (true) {
        Completion completion = channel.notify(1);
        if (completion.done() && completion.wait().code() == StatusCode::kPeerDead) break;
        if (!completion.done()) recent.push_back(completion);
      }
      const std::lock_guard<std::mutex> lock(mutex);
      last.insert(last.end(), recent.begin(), recent.end());
    });
  }
  ASSERT_TRUE(eventually([&] { return channel.stats().backlogged >= 65536; }));
  child.kill();
  for (std::thread& poster : posters) poster.join();
  std::size_t pending = 0;
  for (const Completion& completion : last) {
    if (!eventually([&] { return completion.done(); })) {
      ++pending;
      break;
    }
    EXPECT_EQ(completion.wait().code(), StatusCode::kPeerDead);
  }
  EXPECT_EQ(pending, 0u) << "an operation never ends";
}

TEST_F(KilledPeer, DoesNotDisturbAnotherPeer) {
  ChildProcess bystander("echo", {endpoint()});
  PingPong ping_pong(accept());
  ping_pong.expect_undisturbed();
  for (const char* role : {"idle", "deaf", "stuck writer"}) {
    ChildProcess child(role, {endpoint()});
    Channel channel = accept();
    auto region = channel.allocate(1 << 20).value();
    ASSERT_TRUE(channel.publish("landing", region).ok());
    child.wait_for(role == std::string("stuck writer") ? "inside" : "connected");
    child.kill();
    expect_dead(channel);
    ping_pong.expect_undisturbed();
  }
}

TEST_F(KilledPeer, LeavesAliasesOfItsMemoryReadable) {
  ChildProcess child("publisher", {"127.0.0.1:0", "k"});
  const Endpoint peer = Endpoint::parse(child.wait_for("listening")).value();
  Channel channel = device_.connect(peer, kPatience).value();
  auto region = channel.lookup("export", kPatience).value();
  Alias alias = channel.alias(region, 0, region.size()).value();
  child.kill();
  expect_dead(channel);
  const std::string expected(region.size(), 'k');
  EXPECT_EQ(std::memcmp(alias.data(), expected.data(), expected.size()), 0);
  std::string copy(region.size(), '\0');
  EXPECT_EQ(channel.read({copy.data(), copy.size()}, region).wait(kPatience).code(),
            StatusCode::kPeerDead);
  region = RemoteRegion();
  EXPECT_TRUE(channel.close().ok());
  channel = Channel();
  EXPECT_EQ(std::memcmp(alias.data(), expected.data(), expected.size()), 0);
}

}  // namespace
}  // namespace farwrite::fault
