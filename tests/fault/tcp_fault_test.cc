// Peers over tcp that are killed, stopped, slow, or strangers.
#include <sys/socket.h>

#include <cstring>
#include <thread>
#include <vector>

#include "core/tcp_socket.h"
#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/role.h"

namespace farwrite::fault {
namespace {

constexpr std::uint64_t kLarge = std::uint64_t{8} << 20;  // more than the kernel buffers

// Shows memory of its own as "export", all bytes 0x77.
int tcp_giver(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  auto region = peer.device.allocate(kLarge);
  FARWRITE_REQUIRE_OK(region.status());
  std::memset(region->data(), 0x77, region->size());
  FARWRITE_REQUIRE_OK(peer.device.publish("export", *region));
  say("connected");
  hear_the_end();
  return 0;
}
const RoleRegistration kGiver("tcp giver", tcp_giver);

// Writes "landing" full of 1, 2, 3 ... and raises the number behind each, until it is killed.
int tcp_writer(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  auto target = peer.channel.lookup("landing");
  FARWRITE_REQUIRE_OK(target.status());
  std::vector<std::byte> bytes(target->size());
  say("writing");
  for (std::uint32_t number = 1;; ++number) {
    std::memset(bytes.data(), static_cast<int>(number % 251), bytes.size());
    const Completion written =
        peer.channel.write_with_notify({bytes.data(), bytes.size()}, *target, 0, number);
    if (!written.wait(kPatience).ok()) return 0;
    // The next one only when this one was looked at.
    if (!peer.channel.wait_notification(kPatience).ok()) return 0;
  }
}
const RoleRegistration kWriter("tcp writer", tcp_writer);

// Counts notifications until the peer closes.
int tcp_counter(const Arguments& arguments) {
  Connected peer = connect_to(arguments.at(0));
  say("connected");
  std::uint32_t count = 0;
  while (true) {
    auto notification = peer.channel.wait_notification(kPatience);
    if (!notification.ok()) {
      say("end " + std::string(to_string(notification.status().code())));
      break;
    }
    FARWRITE_REQUIRE(notification->tag == count);
    ++count;
  }
  say("counted " + std::to_string(count));
  hear_the_end();
  return 0;
}
const RoleRegistration kCounter("tcp counter", tcp_counter);

class OverTcp : public FaultTest {
 protected:
  static DeviceOptions tcp_options() {
    DeviceOptions options = quick_options();
    options.fabrics = {FabricKind::kTcp};
    return options;
  }
  std::string endpoint() const { return device_.endpoint().to_string(); }
  Channel accept() {
    Channel channel = device_.accept(kPatience).value();
    EXPECT_EQ(channel.peer().fabric, FabricKind::kTcp);
    return channel;
  }
  static void expect_dead_over_tcp(Channel& channel) {
    EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kDead; }))
        << to_string(channel.peer_state());
    expect_error(channel.notify(1).wait(kPatience), StatusCode::kPeerDead, {"connect again"});
    EXPECT_TRUE(eventually([&] {
      const ChannelStats stats = channel.stats();
      return stats.leases_granted == stats.leases_released;
    }));
  }
  void TearDown() override {
    EXPECT_TRUE(device_.close(kPatience).ok());
    device_ = Device();
    FaultTest::TearDown();
  }

  Device device_ = open_device(tcp_options());
};

TEST_F(OverTcp, AKilledPeerIsDeadAndEndsEveryWait) {
  ChildProcess child("idle", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  std::vector<std::thread> waiters;
  std::vector<Status> outcomes(3);
  waiters.emplace_back([&] { outcomes[0] = channel.wait_notification().status(); });
  waiters.emplace_back([&] { outcomes[1] = channel.wait_notification().status(); });
  waiters.emplace_back([&] { outcomes[2] = channel.lookup("never", kForever).status(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  child.kill();
  for (std::thread& waiter : waiters) waiter.join();
  for (const Status& outcome : outcomes) expect_error(outcome, StatusCode::kPeerDead, {});
  expect_dead_over_tcp(channel);
}

TEST_F(OverTcp, APeerKilledInTheMiddleOfItsWritesLeavesNoTornOne) {
  ChildProcess child("tcp writer", {endpoint()});
  Channel channel = accept();
  auto region = channel.allocate(kLarge).value();
  ASSERT_TRUE(channel.publish("landing", region).ok());
  child.wait_for("writing");
  for (std::uint32_t expected = 1;; ++expected) {
    auto notification = channel.wait_notification(kPatience);
    if (!notification.ok()) {
      expect_error(notification.status(), StatusCode::kPeerDead, {});
      break;
    }
    ASSERT_EQ(notification->tag, expected);
    const auto wanted = static_cast<std::byte>(expected % 251);
    for (std::uint64_t at = 0; at < region.size(); at += 4096) {
      ASSERT_EQ(region.data()[at], wanted) << "torn at " << at;
    }
    if (!channel.notify(expected).wait(kPatience).ok()) break;
    if (expected == 5) child.kill();
  }
  expect_dead_over_tcp(channel);
  EXPECT_TRUE(region.close(std::chrono::nanoseconds(0)).ok()) << "nothing lands any more";
}

TEST_F(OverTcp, AReadFromAStoppedPeerWaitsAndEndsWhenThePeerIsKilled) {
  ChildProcess child("tcp giver", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  auto source = channel.lookup("export").value();
  child.stop();
  std::vector<std::byte> destination(kLarge);
  const Completion read = channel.read({destination.data(), destination.size()}, source);
  EXPECT_EQ(read.wait(std::chrono::milliseconds(100)).code(), StatusCode::kDeadlineExceeded);
  EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kSilent; }));
  EXPECT_FALSE(read.done()) << "silence is no death";
  child.kill();
  expect_error(read.wait(kPatience), StatusCode::kPeerDead, {});
  EXPECT_TRUE(eventually([&] { return read.settled(); }));
  expect_dead_over_tcp(channel);
}

TEST_F(OverTcp, WhatWasPostedToAStoppedPeerArrivesWhenItGoesOn) {
  ChildProcess child("tcp giver", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  auto source = channel.lookup("export").value();
  child.stop();
  std::vector<std::byte> destination(kLarge);
  const Completion read = channel.read({destination.data(), destination.size()}, source);
  const Completion flush = channel.flush();
  EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kSilent; }));
  child.resume();
  EXPECT_TRUE(read.wait(kPatience).ok());
  EXPECT_TRUE(flush.wait(kPatience).ok());
  EXPECT_EQ(destination.front(), std::byte{0x77});
  EXPECT_EQ(destination.back(), std::byte{0x77});
  EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kAlive; }));
}

TEST_F(OverTcp, AKilledPeerGivesBackItsLeases) {
  auto exported = device_.allocate(4096).value();
  ASSERT_TRUE(device_.publish("export", exported).ok());
  ChildProcess child("lessee", {endpoint()});
  Channel channel = accept();
  child.wait_for("holding");
  EXPECT_EQ(device_.stats().leases_held_by_peers, 2u);
  child.kill();
  expect_dead_over_tcp(channel);
  EXPECT_EQ(device_.stats().leases_held_by_peers, 0u);
}

TEST_F(OverTcp, ASlowReaderHoldsItsSenderBackAndGetsEverythingInOrder) {
  ChildProcess child("deaf", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  std::uint32_t sent = 0;
  Status refusal;
  for (; sent < 400'000; ++sent) {
    const Completion notification = channel.notify(sent);
    if (notification.done() && !notification.wait().ok()) {
      refusal = notification.wait();
      break;
    }
  }
  expect_error(refusal, StatusCode::kResourceExhausted, {"tcp", "let the peer take"});
  EXPECT_GT(channel.stats().backlogged, 0u);
  child.tell("take " + std::to_string(sent));
  child.wait_for("took all");
}

TEST_F(OverTcp, WhatWasPostedJustBeforeAGoodByeArrives) {
  constexpr std::uint32_t kCount = 30'000;
  ChildProcess child("tcp counter", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  for (std::uint32_t tag = 0; tag < kCount; ++tag) (void)channel.notify(tag);
  ASSERT_TRUE(channel.close(kPatience).ok());
  child.wait_for("end unavailable");
  child.wait_for("counted " + std::to_string(kCount));
}

TEST_F(OverTcp, APeerHearsOfAGoodByeAlsoBehindAFullBacklog) {
  ChildProcess child("tcp counter", {endpoint()});
  Channel channel = accept();
  child.wait_for("connected");
  child.stop();
  std::uint32_t sent = 0;
  while (sent < 400'000) {
    const Completion notification = channel.notify(sent);
    if (notification.done() && !notification.wait().ok()) break;
    ++sent;
  }
  ASSERT_LT(sent, 400'000u) << "the backlog never filled";
  ASSERT_TRUE(channel.close(kPatience).ok());
  child.resume();
  child.wait_for("end unavailable");
  child.wait_for("counted " + std::to_string(sent));
}

TEST_F(OverTcp, ReadsUnderWayWhenThePeerClosesStillCome) {
  Device owner = open_device(tcp_options());
  auto shown = owner.allocate(kLarge).value();
  std::memset(shown.data(), 0x66, shown.size());
  ASSERT_TRUE(owner.publish("export", shown).ok());
  Channel far;
  std::thread accepting([&] { far = owner.accept(kPatience).value(); });
  Channel near = device_.connect(owner.endpoint(), kPatience).value();
  accepting.join();
  auto source = near.lookup("export").value();
  std::vector<std::vector<std::byte>> destinations(4, std::vector<std::byte>(kLarge));
  std::vector<Completion> reads;
  for (auto& bytes : destinations) reads.push_back(near.read({bytes.data(), bytes.size()}, source));
  ASSERT_TRUE(far.close(kPatience).ok());
  EXPECT_TRUE(eventually([&] { return near.peer_state() == PeerState::kClosed; }));
  for (const Completion& read : reads) EXPECT_TRUE(read.wait(kPatience).ok());
  for (const auto& bytes : destinations) EXPECT_EQ(bytes.back(), std::byte{0x66});
  source = RemoteRegion();
  shown = MemoryRegion();
  EXPECT_TRUE(near.close(kPatience).ok());
  EXPECT_TRUE(owner.close(kPatience).ok());
}

TEST_F(OverTcp, AStrangerAtTheDataPortChangesNothing) {
  std::uint16_t port = 0;
  {
    auto probe = core::listen_tcp({"127.0.0.1", 0});
    ASSERT_TRUE(probe.ok());
    port = probe->endpoint.port;
  }
  DeviceOptions options = tcp_options();
  options.tcp.data_port = port;
  Device device = open_device(options);
  const auto soon = [] { return core::Deadline::after(kPatience); };
  std::vector<core::UniqueFd> strangers;
  for (int i = 0; i < 50; ++i) {
    auto socket = core::connect_tcp({"127.0.0.1", port}, soon());
    ASSERT_TRUE(socket.ok()) << socket.status().to_string();
    const std::vector<std::byte> garbage(static_cast<std::size_t>(i) * 3, std::byte{0xee});
    // Who has sent a whole join's length is hung up on.
    (void)core::send_all(socket->get(), {garbage.data(), garbage.size()}, soon(), "test");
    strangers.push_back(*std::move(socket));
  }
  ChildProcess child("echo", {device.endpoint().to_string()});
  Channel channel = device.accept(kPatience).value();
  ASSERT_TRUE(channel.notify(42).wait(kPatience).ok());
  EXPECT_EQ(channel.wait_notification(kPatience).value().tag, 42u);
  EXPECT_TRUE(device.close(kPatience).ok());
}

// Of this process, over IPv4.
std::size_t listening_sockets() {
  std::size_t count = 0;
  for (int fd = 0; fd < 1024; ++fd) {
    int domain = 0, listens = 0;
    socklen_t size = sizeof(domain);
    if (::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain != AF_INET) continue;
    size = sizeof(listens);
    if (::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0) ++count;
  }
  return count;
}

TEST_F(OverTcp, ADeviceListensForItOnceAPeerNeedsIt) {
  const std::size_t before = listening_sockets();
  DeviceOptions options = quick_options();
  options.fabrics = {FabricKind::kShm, FabricKind::kTcp};
  Device device = open_device(options);
  Device near = open_device();
  EXPECT_EQ(listening_sockets(), before + 2) << "each device has one for its control connections";
  const Channel over_shm = near.connect(device.endpoint(), kPatience).value();
  EXPECT_EQ(over_shm.peer().fabric, FabricKind::kShm);
  EXPECT_EQ(listening_sockets(), before + 2);
  for (int turn = 0; turn < 2; ++turn) {
    const Channel over_tcp = device_.connect(device.endpoint(), kPatience).value();
    EXPECT_EQ(over_tcp.peer().fabric, FabricKind::kTcp);
    EXPECT_EQ(listening_sockets(), before + 3);
  }
  EXPECT_TRUE(device.close(kPatience).ok());
  EXPECT_TRUE(near.close(kPatience).ok());
}

}  // namespace
}  // namespace farwrite::fault
