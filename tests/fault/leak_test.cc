// Nothing stays behind: no descriptor, thread, mapping or file, however often peers come and go.
#include <barrier>
#include <thread>
#include <vector>

#include "fault/child_process.h"
#include "fault/fixture.h"

namespace farwrite::fault {
namespace {

using Leaks = FaultTest;

// One conversation with everything in it.
void converse(Device& server, Device& client) {
  Channel from = client.connect(server.endpoint(), kPatience).value();
  Channel to = server.accept(kPatience).value();
  auto landing = to.allocate(4096).value();
  ASSERT_TRUE(to.publish("landing", landing).ok());
  auto target = from.lookup("landing").value();
  char bytes[64] = {1};
  ASSERT_TRUE(from.write_with_notify({bytes, 64}, target, 0, 3).wait(kPatience).ok());
  ASSERT_EQ(to.wait_notification(kPatience).value().tag, 3u);
  auto source = from.lookup("export").value();
  Alias alias = from.alias(source, 0, 64).value();
  ASSERT_TRUE(to.close().ok());
  ASSERT_TRUE(from.close().ok());
}

TEST_F(Leaks, NoneInFiftyConversationsOfTwoDevices) {
  Device server = open_device();
  Device client = open_device();
  auto exported = server.allocate(4096).value();
  ASSERT_TRUE(server.publish("export", exported).ok());
  converse(server, client);
  ASSERT_TRUE(eventually([&] {
    return server.stats().channels_open == 0 && client.stats().channels_open == 0;
  })) << server.stats().channels_open
      << " and " << client.stats().channels_open << " left open";
  const Holdings before = Holdings::now();
  for (int i = 0; i < 50; ++i) converse(server, client);
  EXPECT_TRUE(eventually([&] { return Holdings::now().within(before); }))
      << "now: " << ::testing::PrintToString(Holdings::now())
      << "\nbefore: " << ::testing::PrintToString(before);
  EXPECT_EQ(server.stats().leases_held_by_peers, 0u);
  EXPECT_EQ(server.stats().receive.used, 0u);
  EXPECT_TRUE(client.close().ok());
  EXPECT_TRUE(server.close().ok());
}

// Two threads drop the last two leases at once, when all that is left to say is that none is held.
// Either may end the channel; the peer must have received it by then, or it keeps the channel for
// ever.
TEST_F(Leaks, NoneWhenTwoThreadsDropTheLastLeasesAtOnce) {
  Device server = open_device();
  Device client = open_device();
  auto exported = server.allocate(4096).value();
  ASSERT_TRUE(server.publish("export", exported).ok());
  for (int round = 0; round < 100; ++round) {
    Channel from = client.connect(server.endpoint(), kPatience).value();
    Channel to = server.accept(kPatience).value();
    auto one = from.lookup("export").value();
    auto other = from.lookup("export").value();
    ASSERT_TRUE(from.close().ok());
    ASSERT_TRUE(to.close().ok());
    ASSERT_TRUE(eventually([&] { return from.peer_state() == PeerState::kClosed; }));
    std::barrier both(2);
    std::thread dropper([&] {
      both.arrive_and_wait();
      one = RemoteRegion();
    });
    both.arrive_and_wait();
    other = RemoteRegion();
    dropper.join();
  }
  EXPECT_TRUE(eventually([&] {
    return server.stats().channels_open == 0 && client.stats().channels_open == 0;
  })) << server.stats().channels_open
      << " and " << client.stats().channels_open << " left open";
}

TEST_F(Leaks, NoneInFiftyDevices) {
  for (int i = 0; i < 50; ++i) {
    Device device = open_device();
    auto region = device.allocate(4096);
    ASSERT_TRUE(region.ok());
  }
}

TEST_F(Leaks, NoneAfterTwentyPeersDied) {
  Device device = open_device();
  auto exported = device.allocate(4096).value();
  ASSERT_TRUE(device.publish("export", exported).ok());
  for (int i = 0; i < 20; ++i) {
    ChildProcess child("lessee", {device.endpoint().to_string()});
    Channel channel = device.accept(kPatience).value();
    child.wait_for("holding");
    child.kill();
    expect_dead(channel);
  }
  EXPECT_TRUE(eventually([&] { return device.stats().channels_open == 0; }))
      << device.stats().channels_open << " channels of dead peers are left";
  EXPECT_EQ(device.stats().leases_held_by_peers, 0u);
  EXPECT_TRUE(device.close().ok());
}

TEST_F(Leaks, NoneWhenOnlyThePeerEverCloses) {
  Device server = open_device();
  {
    Device client = open_device();
    Channel from = client.connect(server.endpoint(), kPatience).value();
    Channel to = server.accept(kPatience).value();
    ASSERT_TRUE(from.close().ok());
    EXPECT_TRUE(eventually([&] { return to.peer_state() == PeerState::kClosed; }));
    expect_error(to.notify(1).wait(kPatience), StatusCode::kUnavailable,
                 {client.endpoint().to_string(), "closed", "connect again"});
  }
  EXPECT_TRUE(eventually([&] { return server.stats().channels_open == 0; }));
  EXPECT_TRUE(server.close().ok());
}

}  // namespace
}  // namespace farwrite::fault
