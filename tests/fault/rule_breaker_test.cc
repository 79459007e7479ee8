// Peers that passed the handshake and then break every rule.
#include <signal.h>

#include <atomic>
#include <future>
#include <limits>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "core/event_loop.h"
#include "core/status_wire.h"
#include "core/tcp_socket.h"
#include "device/control_messages.h"
#include "device/frame.h"
#include "device/handshake.h"
#include "fabric/shm/shm_fabric.h"
#include "fabric/tcp/tcp_fabric.h"
#include "fault/child_process.h"
#include "fault/fixture.h"
#include "fault/hostile_identity.h"
#include "fault/role.h"
#include "plain_sockets.h"

namespace farwrite::fault {
namespace {

using device::ControlFrameType;

core::Deadline rule_deadline() { return core::Deadline::after(kPatience); }

struct RuleObserver final : fabric::LinkObserver {
  void on_peer_dead(const Status&) override {}
  void on_link_error(const Status&) override {}
};

// The data plane is a real link, the control connection this role's own. Arguments: endpoint, what
// to send.
int rule_breaker(const Arguments& arguments) {
  const Endpoint target = Endpoint::parse(arguments.at(0)).value();
  const std::string& what = arguments.at(1);
  auto loop = *core::EventLoop::start("hostile");
  auto fabric = *fabric::shm::ShmFabric::create(*loop);
  const device::LocalIdentity self = hostile_identity(*fabric);
  const core::UniqueFd socket = *core::connect_tcp(target, rule_deadline());
  RuleObserver observer;
  auto introduction = device::introduce_connecting(socket.get(), self, target.to_string(),
                                                   rule_deadline(), &observer);
  FARWRITE_REQUIRE_OK(introduction.status());

  std::vector<std::byte> bytes;
  const auto add = [&](ControlFrameType type, const std::vector<std::byte>& body) {
    const auto frame = device::encode_frame(type, {body.data(), body.size()});
    bytes.insert(bytes.end(), frame.begin(), frame.end());
  };
  if (what == "unknown type") {
    add(static_cast<ControlFrameType>(999), {});
  } else if (what == "handshake again") {
    add(ControlFrameType::kHello, {});
  } else if (what == "truncated message") {
    add(ControlFrameType::kLookup, std::vector<std::byte>(5));
  } else if (what == "oversized frame") {
    bytes = {std::byte{0xff}, std::byte{0xff}, std::byte{0xff},
             std::byte{0xff}, std::byte{33},   std::byte{0}};
  } else if (what == "garbage") {
    bytes.resize(100000, std::byte{0xa5});
  } else if (what == "endless wait") {
    device::LookupMessage lookup;
    lookup.request = 1;
    lookup.name = "nothing";
    for (const std::uint64_t wait : {std::numeric_limits<std::uint64_t>::max(),
                                     std::uint64_t{1} << 63, std::uint64_t{1} << 44}) {
      lookup.wait_ms = wait;
      add(ControlFrameType::kLookup, lookup.to_bytes());
    }
  } else if (what == "foreign leases") {
    for (std::uint64_t lease = 0; lease < 100; ++lease) {
      add(ControlFrameType::kRelease, device::ReleaseMessage{lease}.to_bytes());
    }
    device::ReplyMessage reply;
    reply.status = Status(StatusCode::kNotFound, "to a question that nobody asked");
    add(ControlFrameType::kReply, reply.to_bytes());
  } else if (what == "no channel after all") {
    introduction->link.reset();
    add(ControlFrameType::kRefuse,
        core::status_to_bytes(Status(StatusCode::kUnavailable, "no patience")));
    add(ControlFrameType::kFin, {});
  } else if (what == "lookups and death") {
    device::LookupMessage lookup;
    lookup.name = "export";
    for (lookup.request = 1; lookup.request <= 4000; ++lookup.request) {
      add(ControlFrameType::kLookup, lookup.to_bytes());
    }
  }
  FARWRITE_REQUIRE_OK(
      core::send_all(socket.get(), {bytes.data(), bytes.size()}, rule_deadline(), "test"));
  if (what == "lookups and death") ::raise(SIGKILL);
  say("sent");
  hear_the_end();
  return 0;
}
const RoleRegistration kRuleBreaker("rule breaker", rule_breaker);

struct EndObserver final : fabric::LinkObserver {
  void on_peer_dead(const Status&) override { ended = true; }
  void on_link_error(const Status&) override {}
  std::atomic<bool> ended{false};
};

struct IgnoringSink final : fabric::EventSink {
  void on_notification(Notification&&) override {}
};

// Breaks the protocol over tcp, never reads the answer, and waits for its lanes to be ended.
int deaf_rule_breaker(const Arguments& arguments) {
  const Endpoint target = Endpoint::parse(arguments.at(0)).value();
  auto loop = *core::EventLoop::start("hostile");
  auto fabric = *fabric::tcp::TcpFabric::create(*loop, fabric::tcp::FabricOptions::of({}));
  const device::LocalIdentity self = hostile_identity(*fabric);
  const core::UniqueFd socket = *core::connect_tcp(target, rule_deadline());
  EndObserver observer;
  auto introduction = device::introduce_connecting(socket.get(), self, target.to_string(),
                                                   rule_deadline(), &observer);
  FARWRITE_REQUIRE_OK(introduction.status());
  const auto frame = device::encode_frame(static_cast<ControlFrameType>(999), {});
  FARWRITE_REQUIRE_OK(
      core::send_all(socket.get(), {frame.data(), frame.size()}, rule_deadline(), "test"));
  IgnoringSink sink;
  FARWRITE_REQUIRE(eventually([&] {
    (void)introduction->link->lane(0).poll(sink);
    return observer.ended.load();
  }));
  say("cut off");
  hear_the_end();
  return 0;
}
const RoleRegistration kDeafRuleBreaker("deaf rule breaker", deaf_rule_breaker);

class RuleBreaker : public FaultTest {
 protected:
  void TearDown() override {
    EXPECT_TRUE(device_.close(kPatience).ok());
    device_ = Device();
    FaultTest::TearDown();
  }
  Device device_ = open_device();
};

TEST_F(RuleBreaker, LosesItsChannelAndDisturbsNobody) {
  ChildProcess bystander("echo", {device_.endpoint().to_string()});
  PingPong ping_pong(device_.accept(kPatience).value());
  for (const char* what :
       {"unknown type", "handshake again", "truncated message", "oversized frame", "garbage"}) {
    ChildProcess child("rule breaker", {device_.endpoint().to_string(), what});
    Channel channel = device_.accept(kPatience).value();
    child.wait_for("sent");
    EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kClosed; })) << what;
    const Status status = channel.notify(1).wait(kPatience);
    EXPECT_EQ(status.code(), StatusCode::kProtocolError) << what << ": " << status.to_string();
    ping_pong.expect_undisturbed();
    EXPECT_TRUE(channel.close().ok());
  }
}

TEST_F(RuleBreaker, ThatIgnoresTheRefusalIsCutOffAllTheSame) {
  DeviceOptions options = quick_options();
  options.fabrics = {FabricKind::kTcp};
  Device device = open_device(options);
  ChildProcess child("deaf rule breaker", {device.endpoint().to_string()});
  Channel channel = device.accept(kPatience).value();
  child.wait_for("cut off");
  EXPECT_EQ(channel.notify(1).wait(kPatience).code(), StatusCode::kProtocolError);
  EXPECT_TRUE(channel.close().ok());
  EXPECT_TRUE(device.close(kPatience).ok());
}

TEST_F(RuleBreaker, ThatIgnoresTheRefusalDoesNotHoldUpACloseOfTheDevice) {
  DeviceOptions options = quick_options();
  options.fabrics = {FabricKind::kTcp};
  Device device = open_device(options);
  ChildProcess child("deaf rule breaker", {device.endpoint().to_string()});
  Channel channel = device.accept(kPatience).value();
  EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kClosed; }));
  auto closed = std::async(std::launch::async, [&] { return device.close(kForever); });
  EXPECT_EQ(closed.wait_for(kPatience), std::future_status::ready);
  child.kill();
  EXPECT_TRUE(closed.get().ok());
}

// It gave up while it was welcomed: it breaks no rule.
TEST_F(RuleBreaker, ThatGaveUpAfterTheHandshakeLeavesNothingWithAPeerThatDidNot) {
  const Holdings before = Holdings::now();
  ChildProcess child("rule breaker", {device_.endpoint().to_string(), "no channel after all"});
  Channel channel = device_.accept(kPatience).value();
  child.wait_for("sent");
  EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kClosed; }));
  expect_error(channel.notify(1).wait(kPatience), StatusCode::kUnavailable, {"no patience"});
  EXPECT_TRUE(channel.close().ok());
  channel = Channel();
  // All of it while the peer lives; two of the descriptors are those of the child.
  EXPECT_TRUE(eventually([&] {
    return Holdings::now().descriptors.size() <= before.descriptors.size() + 2;
  })) << ::testing::PrintToString(Holdings::now());
  child.tell("and still");
}

TEST_F(RuleBreaker, GainsNothingByAbsurdRequests) {
  for (const char* what : {"endless wait", "foreign leases"}) {
    ChildProcess child("rule breaker", {device_.endpoint().to_string(), what});
    Channel channel = device_.accept(kPatience).value();
    child.wait_for("sent");
    EXPECT_TRUE(channel.notify(1).wait(kPatience).ok()) << what;
    EXPECT_EQ(channel.stats().leases_granted, 0u);
    child.kill();
    expect_dead(channel);
  }
}

TEST_F(RuleBreaker, ThatDiesAfterManyRequestsHoldsNoLease) {
  auto region = device_.allocate(64).value();
  ASSERT_TRUE(device_.publish("export", region).ok());
  ChildProcess child("rule breaker", {device_.endpoint().to_string(), "lookups and death"});
  Channel channel = device_.accept(kPatience).value();
  EXPECT_TRUE(eventually([&] { return channel.peer_state() == PeerState::kDead; }));
  // Whatever it had sent before its end is served by now, or never.
  std::uint64_t granted = 0;
  EXPECT_TRUE(eventually([&] {
    const std::uint64_t now = channel.stats().leases_granted;
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return std::exchange(granted, now) == now && channel.stats().leases_granted == now;
  }));
  EXPECT_EQ(channel.stats().leases_granted, channel.stats().leases_released);
  EXPECT_EQ(device_.stats().leases_held_by_peers, 0u);
}

}  // namespace
}  // namespace farwrite::fault
