// A peer comes back on the same endpoint: the same device, another start of it.
#include <cstring>

#include "fault/child_process.h"
#include "fault/fixture.h"

namespace farwrite::fault {
namespace {

using RestartedPeer = FaultTest;

TEST_F(RestartedPeer, RefusesOldDescriptorsAndServesNewOnes) {
  Device device = open_device();
  ChildProcess first("publisher", {"127.0.0.1:0", "1"});
  const std::string address = first.wait_for("listening");
  const Endpoint peer = Endpoint::parse(address).value();
  Channel old_channel = device.connect(peer, kPatience).value();
  const RegionDescriptor old = old_channel.lookup("export", kPatience).value().descriptor();
  first.kill();
  expect_dead(old_channel);

  ChildProcess second("publisher", {address, "2"});
  ASSERT_EQ(second.wait_for("listening"), address);
  Channel channel = device.connect(peer, kPatience).value();
  EXPECT_EQ(channel.peer().uuid, old_channel.peer().uuid);
  EXPECT_GT(channel.peer().epoch, old_channel.peer().epoch);
  expect_error(channel.open(old).status(), StatusCode::kPeerRestarted,
               {address, "peer restarted", "fresh descriptor"});
  expect_error(old_channel.open(old).status(), StatusCode::kPeerDead, {"process is gone"});
  expect_dead(old_channel);

  RemoteRegion region = channel.lookup("export", kPatience).value();
  std::string bytes(region.size(), '\0');
  ASSERT_TRUE(channel.memcpy(bytes.data(), region, 0, bytes.size(), Direction::kFromRemote).ok());
  EXPECT_EQ(bytes, std::string(region.size(), '2'));
  EXPECT_TRUE(channel.open(region.descriptor()).ok());
  region = RemoteRegion();
  EXPECT_TRUE(device.close().ok());
}

TEST_F(RestartedPeer, RefusesADescriptorThatClaimsALaterStart) {
  Device device = open_device();
  ChildProcess child("publisher", {"127.0.0.1:0", "1"});
  Channel channel =
      device.connect(Endpoint::parse(child.wait_for("listening")).value(), kPatience).value();
  RegionDescriptor descriptor = channel.lookup("export", kPatience).value().descriptor();
  descriptor.epoch += 1;
  expect_error(channel.open(descriptor).status(), StatusCode::kFailedPrecondition, {"later start"});
  descriptor.epoch -= 1;
  descriptor.device_uuid[3] ^= 1;
  expect_error(channel.open(descriptor).status(), StatusCode::kInvalidArgument,
               {"belongs to device", "through a channel to that device"});
  EXPECT_TRUE(device.close().ok());
}

TEST_F(RestartedPeer, FindsItsPortTakenAndSaysSo) {
  Device device = open_device();
  DeviceOptions options = quick_options();
  options.listen = device.endpoint();
  expect_error(Device::open(options).status(), StatusCode::kAlreadyExists,
               {device.endpoint().to_string(), "already listens there", "another port"});
  EXPECT_TRUE(device.close().ok());
}

}  // namespace
}  // namespace farwrite::fault
