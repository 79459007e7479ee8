// Who may talk to whom, and what the two know of each other afterwards.
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>
#include <string>
#include <vector>

#include "conformance/conformance.h"
#include "reserved_port.h"

namespace farwrite {
namespace {

using Handshake = Conformance;

TEST_P(Handshake, BothSidesKnowEachOther) {
  Device near_device = open(), far_device = open();
  ChannelPair pair = connect(near_device, far_device);
  ASSERT_TRUE(pair.near.valid() && pair.far.valid());
  EXPECT_EQ(pair.near.peer().uuid, far_device.uuid());
  EXPECT_EQ(pair.near.peer().epoch, far_device.epoch());
  EXPECT_EQ(pair.near.peer().endpoint, far_device.endpoint());
  EXPECT_EQ(pair.far.peer().uuid, near_device.uuid());
  EXPECT_EQ(pair.far.peer().epoch, near_device.epoch());
  EXPECT_EQ(pair.far.peer().endpoint, near_device.endpoint());
  EXPECT_NE(near_device.uuid(), far_device.uuid());
  for (const Channel& channel : {pair.near, pair.far}) {
    EXPECT_EQ(channel.peer().fabric, GetParam().fabric);
    EXPECT_FALSE(channel.peer().fabric_reason.empty());
    EXPECT_EQ(channel.peer().lanes, lanes());
    EXPECT_EQ(channel.peer_state(), PeerState::kAlive);
  }
  EXPECT_EQ(near_device.stats().choices.size(), 1U);
}

TEST_P(Handshake, TheSmallerNumberOfLanesIsUsed) {
  for (const bool near_has_fewer : {false, true}) {
    DeviceOptions few = options(), many = options();
    few.lanes = 2;
    many.lanes = 5;
    Device near_device = open(near_has_fewer ? few : many);
    Device far_device = open(near_has_fewer ? many : few);
    ChannelPair pair = connect(near_device, far_device);
    ASSERT_TRUE(pair.near.valid() && pair.far.valid());
    EXPECT_EQ(pair.near.peer().lanes, 2U);
    EXPECT_EQ(pair.far.peer().lanes, 2U);
    EXPECT_OK(pair.near.notify(1, 1).wait(kHang));
    EXPECT_OK(pair.far.wait_notification(kHang));
  }
}

TEST_P(Handshake, EveryConnectMakesAChannelOfItsOwn) {
  Device near_device = open(), far_device = open();
  ChannelPair first = connect(near_device, far_device), second = connect(near_device, far_device);
  ChannelPair back = connect(far_device, near_device);
  ASSERT_TRUE(first.near.valid() && second.near.valid() && back.near.valid());
  EXPECT_OK(second.near.notify(2).wait(kHang));
  EXPECT_OK(back.near.notify(3).wait(kHang));
  auto notification = second.far.wait_notification(kHang);
  ASSERT_OK(notification);
  EXPECT_EQ(notification->tag, 2U);
  notification = back.far.wait_notification(kHang);
  ASSERT_OK(notification);
  EXPECT_EQ(notification->tag, 3U);
  EXPECT_FALSE(first.far.try_notification().value().has_value());
  EXPECT_OK(first.near.close(kHang));
  EXPECT_OK(second.near.notify(4).wait(kHang));
  EXPECT_OK(second.far.wait_notification(kHang));
}

TEST_P(Handshake, TheSameTokenOpensAndAnythingElseDoesNot) {
  DeviceOptions with = options(), other = options(), without = options();
  with.token = "a long shared secret";
  other.token = "another shared secret";
  without.token = Token::none();
  {
    Device near_device = open(with), far_device = open(with);
    EXPECT_TRUE(connect(near_device, far_device).near.valid());
  }
  struct Case {
    const DeviceOptions &near, &far;
  };
  for (const Case& wrong : {Case{with, other}, Case{with, without}, Case{without, with}}) {
    Device near_device = open(wrong.near), far_device = open(wrong.far);
    SCOPED_TRACE("near \"" + wrong.near.token.secret() + "\", far \"" + wrong.far.token.secret() +
                 "\"");
    const Status refused = near_device.connect(far_device.endpoint(), kHang).status();
    EXPECT_CODE(kUnauthenticated, refused);
    EXPECT_NE(refused.message().find("token"), std::string::npos) << refused.to_string();
    EXPECT_NE(refused.message().find(far_device.endpoint().to_string()), std::string::npos)
        << refused.to_string();
    EXPECT_EQ(refused.message().find("secret"), std::string::npos) << "the token leaks";
    EXPECT_CODE(kDeadlineExceeded, far_device.accept(std::chrono::milliseconds(50)).status());
    EXPECT_EQ(far_device.stats().channels_open, 0U);
  }
}

TEST_P(Handshake, NobodyListeningIsAnErrorThatNamesThePeer) {
  const ReservedPort silent;
  Device device = open();
  const Status refused = device.connect(silent.endpoint(), std::chrono::milliseconds(200)).status();
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find(silent.endpoint().to_string()), std::string::npos)
      << refused.to_string();
}

TEST_P(Handshake, ConnectWaitsForAPeerThatStartsLater) {
  DeviceOptions later = options();
  const ReservedPort reserved;
  later.listen = reserved.endpoint();
  Device near_device = open();
  auto connected =
      std::async(std::launch::async, [&] { return near_device.connect(later.listen, kHang); });
  EXPECT_EQ(connected.wait_for(std::chrono::milliseconds(50)), std::future_status::timeout);
  Device far_device = open(later);
  ASSERT_TRUE(far_device.valid());
  EXPECT_OK(far_device.accept(kHang));
  EXPECT_OK(connected.get());
}

TEST_P(Handshake, APortThatIsTakenIsAnError) {
  Device first = open();
  DeviceOptions same = options();
  same.listen = first.endpoint();
  const Status taken = Device::open(same).status();
  EXPECT_FALSE(taken.ok());
  EXPECT_NE(taken.message().find(std::to_string(same.listen.port)), std::string::npos)
      << taken.to_string();
}

TEST_P(Handshake, NoFabricInCommonIsAnErrorAndNeverAFallback) {
  DeviceOptions other = options();
  other.fabrics = {GetParam().fabric == FabricKind::kShm ? FabricKind::kTcp : FabricKind::kShm};
  Device near_device = open(), far_device = open(other);
  const Status refused = near_device.connect(far_device.endpoint(), kHang).status();
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find(to_string(GetParam().fabric)), std::string::npos)
      << refused.to_string();
  EXPECT_EQ(far_device.stats().channels_open, 0U);
}

TEST_P(Handshake, AFabricThatCannotBeHadIsAnErrorThatNamesIt) {
  DeviceOptions forced = options();
  forced.fabrics = {FabricKind::kVerbs};
  forced.verbs.device = "no_such_adapter";
  auto device = Device::open(forced);
  Status refused = device.status();
  if (device.ok()) {
    Device far_device = open();
    refused = device->connect(far_device.endpoint(), std::chrono::seconds(5)).status();
  }
  EXPECT_FALSE(refused.ok());
  EXPECT_NE(refused.message().find("verbs"), std::string::npos) << refused.to_string();
}

TEST_P(Handshake, AStrangerWhoTalksGarbageDisturbsNobody) {
  Device near_device = open(), far_device = open();
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(far_device.endpoint().port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::vector<int> strangers;
  for (std::uint32_t i = 0; i < 8; ++i) {
    const int stranger = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(stranger, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    const std::vector<std::byte> garbage = make_bytes(i * 97, i);
    (void)::send(stranger, garbage.data(), garbage.size(), MSG_NOSIGNAL);
    strangers.push_back(stranger);
  }
  ChannelPair pair = connect(near_device, far_device);
  ASSERT_TRUE(pair.near.valid() && pair.far.valid());
  EXPECT_OK(pair.near.notify(1).wait(kHang));
  EXPECT_OK(pair.far.wait_notification(kHang));
  for (const int stranger : strangers) ::close(stranger);
  EXPECT_TRUE(eventually([&] { return far_device.stats().handshakes_refused >= 8; }));
  EXPECT_EQ(far_device.stats().channels_opened, 1U);
}

FARWRITE_EVERY_FABRIC(Handshake);

}  // namespace
}  // namespace farwrite
