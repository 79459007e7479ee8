// DeviceOptions::encrypt as a user sees it, and as something on the wire does.
#include <cstring>
#include <future>
#include <string>
#include <vector>

#include "conformance/conformance.h"
#include "core/log.h"
#include "core/tcp_socket.h"
#include "core/tls_library.h"
#include "wire_tap.h"

namespace farwrite {
namespace {

DeviceOptions options(FabricKind fabric, bool encrypt, Token token = "a long shared secret") {
  DeviceOptions options;
  options.fabrics = {fabric};
  options.token = std::move(token);
  options.encrypt = encrypt;
  options.huge_pages = HugePages::kOff;
  options.segment_bytes = options.receive_segment_bytes = std::uint64_t{2} << 20;
  return options;
}

class Encryption : public testing::Test {
 protected:
  void SetUp() override {
    core::set_log_level(core::LogLevel::kError);
    const Status openssl = core::TlsLibrary::open().status();
    if (!openssl.ok()) GTEST_SKIP() << openssl.message();
  }
  // Two devices, and all that passes between them goes through the tap: it listens at another
  // address of this host, at the same data port.
  void connect_through_the_tap(bool encrypt) {
    DeviceOptions far_options = options(FabricKind::kTcp, encrypt);
    far_options.tcp.data_port = core::listen_tcp({"127.0.0.1", 0}).value().endpoint.port;
    far_device_ = Device::open(far_options).value();
    near_device_ = Device::open(options(FabricKind::kTcp, encrypt)).value();
    (void)tap_.relay({"127.0.0.2", far_options.tcp.data_port},
                     {"127.0.0.1", far_options.tcp.data_port});
    const Endpoint door = tap_.relay({"127.0.0.2", 0}, far_device_.endpoint());
    auto accepted = std::async(std::launch::async, [&] { return far_device_.accept(kHang); });
    auto near = near_device_.connect(door, kHang);
    auto far = accepted.get();
    ASSERT_OK(near);
    ASSERT_OK(far);
    near_ = *std::move(near);
    far_ = *std::move(far);
  }
  // A name, its description, a message and a megabyte travel.
  void talk() {
    auto shown = far_device_.allocate(1024);
    ASSERT_OK(shown);
    ASSERT_OK(far_device_.publish("the-name-of-a-region", *shown, "its-description"));
    ASSERT_OK(near_.lookup("the-name-of-a-region", kHang));
    const std::string message = "a-short-message";
    EXPECT_OK(near_.send({message.data(), message.size()}).wait(kHang));
    EXPECT_OK(far_.wait_notification(kHang));
    auto landing = far_.allocate(1 << 20);
    ASSERT_OK(landing);
    std::memset(landing->data(), 0, 1 << 20);
    auto target = near_.open(landing->descriptor(), kHang);
    ASSERT_OK(target);
    std::vector<std::byte> bytes = make_bytes(1 << 20, 3);
    const std::string payload = "what-is-in-the-payload";
    std::memcpy(bytes.data() + 500'000, payload.data(), payload.size());
    EXPECT_OK(wait_until_settled(
        near_.write_with_notify({bytes.data(), bytes.size()}, *target, 0, /*tag=*/7)));
    EXPECT_OK(far_.wait_notification(kHang));
    EXPECT_EQ(std::memcmp(landing->data(), bytes.data(), bytes.size()), 0);
  }
  // What would be there if it were plain. The bytes of the token's proof are random anyway.
  std::vector<std::string> telling() const {
    const DeviceUuid uuid = far_device_.uuid();
    return {"the-name-of-a-region",
            "its-description",
            "a-short-message",
            "what-is-in-the-payload",
            std::string(reinterpret_cast<const char*>(uuid.data()), uuid.size()),
            "FWRT"};
  }

  WireTap tap_;
  Device near_device_, far_device_;
  Channel near_, far_;
};

TEST_F(Encryption, NothingOfAChannelPassesInTheClear) {
  connect_through_the_tap(true);
  talk();
  EXPECT_EQ(tap_.connections(), 3U) << "control, the lane, the return lane";
  for (const std::string& text : telling()) EXPECT_FALSE(tap_.saw(text)) << text;
  for (const Channel& channel : {near_, far_}) EXPECT_TRUE(channel.peer().encrypted);
  ASSERT_EQ(near_device_.stats().choices.size(), 1U);
  EXPECT_NE(near_device_.stats().choices[0].find("encrypted"), std::string::npos);
}

// Shows that the test above would see it.
TEST_F(Encryption, WithoutItAllOfThatPassesInTheClear) {
  connect_through_the_tap(false);
  talk();
  for (const std::string& text : telling()) EXPECT_TRUE(tap_.saw(text)) << text;
  for (const Channel& channel : {near_, far_}) EXPECT_FALSE(channel.peer().encrypted);
}

TEST_F(Encryption, AChannelWhoseBytesAreChangedEndsAndGivesNoWrongByte) {
  connect_through_the_tap(true);
  auto landing = far_.allocate(1 << 20);
  ASSERT_OK(landing);
  std::memset(landing->data(), 0, 1 << 20);
  auto target = near_.open(landing->descriptor(), kHang);
  ASSERT_OK(target);
  tap_.set_filter([passed = std::size_t{0}](bool forth, std::string& bytes) mutable {
    if (!forth) return;
    passed += bytes.size();
    if (passed > 100'000) bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  });
  const std::vector<std::byte> bytes = make_bytes(1 << 20, 5);
  (void)wait_until_settled(near_.write_with_notify({bytes.data(), bytes.size()}, *target, 0, 7));
  const Status ended = far_.wait_notification(kHang).status();
  EXPECT_CODE(kPeerDead, ended);
  EXPECT_NE(ended.message().find("changed in transit"), std::string::npos) << ended.to_string();
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::byte landed = static_cast<const std::byte*>(landing->data())[i];
    ASSERT_TRUE(landed == bytes[i] || landed == std::byte{0}) << "at " << i;
  }
}

TEST_F(Encryption, ACutConnectionIsThePeersDeath) {
  connect_through_the_tap(true);
  tap_.cut();
  for (Channel& channel : {std::ref(near_), std::ref(far_)}) {
    EXPECT_CODE(kPeerDead, channel.wait_notification(kHang).status());
    EXPECT_EQ(channel.peer_state(), PeerState::kDead);
  }
}

TEST_F(Encryption, OneSideAloneIsAnErrorOnBothThatSaysWhatToSet) {
  for (const bool near_encrypts : {false, true}) {
    SCOPED_TRACE(near_encrypts ? "the connecting side encrypts" : "the accepting side encrypts");
    core::set_log_level(core::LogLevel::kWarning);
    testing::internal::CaptureStderr();
    {
      Device near_device = Device::open(options(FabricKind::kTcp, near_encrypts)).value();
      Device far_device = Device::open(options(FabricKind::kTcp, !near_encrypts)).value();
      const Status refused = near_device.connect(far_device.endpoint(), kHang).status();
      EXPECT_CODE(kFailedPrecondition, refused);
      EXPECT_NE(refused.message().find("encrypt on both"), std::string::npos)
          << refused.to_string();
      EXPECT_TRUE(eventually([&] { return far_device.stats().handshakes_refused == 1; }));
    }
    core::set_log_level(core::LogLevel::kError);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find("encrypt on both"), std::string::npos) << said;
  }
}

TEST_F(Encryption, AnotherTokenIsRefused) {
  Device near_device = Device::open(options(FabricKind::kTcp, true)).value();
  Device far_device = Device::open(options(FabricKind::kTcp, true, "another secret")).value();
  const Status refused = near_device.connect(far_device.endpoint(), kHang).status();
  EXPECT_CODE(kUnauthenticated, refused);
  EXPECT_NE(refused.message().find("same token"), std::string::npos) << refused.to_string();
  EXPECT_NE(refused.message().find(far_device.endpoint().to_string()), std::string::npos)
      << refused.to_string();
}

TEST_F(Encryption, NeedsAToken) {
  for (const Token& token : {Token(), Token::none(), Token::cookie_else_none()}) {
    const Status refused = Device::open(options(FabricKind::kTcp, true, token)).status();
    EXPECT_CODE(kInvalidArgument, refused);
    EXPECT_NE(refused.message().find("set the token"), std::string::npos) << refused.to_string();
  }
}

TEST_F(Encryption, WithSharedMemoryTheControlConnectionIsEncrypted) {
  Device near_device = Device::open(options(FabricKind::kShm, true)).value();
  Device far_device = Device::open(options(FabricKind::kShm, true)).value();
  const Endpoint door = tap_.relay({"127.0.0.2", 0}, far_device.endpoint());
  auto accepted = std::async(std::launch::async, [&] { return far_device.accept(kHang); });
  auto near = near_device.connect(door, kHang);
  auto far = accepted.get();
  ASSERT_OK(near);
  ASSERT_OK(far);
  EXPECT_EQ(near->peer().fabric, FabricKind::kShm);
  EXPECT_TRUE(near->peer().encrypted);
  auto shown = far_device.allocate(64);
  ASSERT_OK(shown);
  ASSERT_OK(far_device.publish("the-name-of-a-region", *shown));
  EXPECT_OK(near->lookup("the-name-of-a-region", kHang));
  EXPECT_FALSE(tap_.saw("the-name-of-a-region"));
  EXPECT_FALSE(tap_.saw("FWRT"));
}

}  // namespace
}  // namespace farwrite
