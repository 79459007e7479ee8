// DeviceOptions::token as a user sees it: who may connect to whom, and what a refusal says.
#include <gmock/gmock.h>

#include <future>

#include "core/log.h"
#include "core/tls_library.h"
#include "device/device.h"
#include "unit/token_environment.h"

namespace farwrite {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::chrono::seconds kHang(30);

class DeviceToken : public TokenEnvironment {
 protected:
  DeviceToken() { core::set_log_level(core::LogLevel::kError); }
  ~DeviceToken() override { core::set_log_level(core::LogLevel::kWarning); }

  static DeviceOptions options(Token token = Token(), const std::string& host = "127.0.0.1") {
    DeviceOptions result;
    result.listen = {host, 0};
    result.fabrics = {FabricKind::kTcp};
    result.send_limit = result.receive_limit = 1 << 22;
    result.token = std::move(token);
    return result;
  }
  static Device open(Token token = Token(), const std::string& host = "127.0.0.1") {
    return Device::open(options(std::move(token), host)).value();
  }
  // Of a user whose cookie lies in that folder.
  Device open_in(const std::string& runtime) {
    set("XDG_RUNTIME_DIR", folder(runtime));
    return open();
  }
  // Of connecting; if it fails, the accepting side has no channel.
  static Status meet(Device& connecting, Device& accepting) {
    const std::uint64_t opened_before = accepting.stats().channels_opened;
    auto accepted = std::async(std::launch::async, [&] { return accepting.accept(kHang); });
    const Status status =
        connecting.connect({"127.0.0.1", accepting.endpoint().port}, kHang).status();
    if (!status.ok()) {
      EXPECT_EQ(accepting.stats().channels_opened, opened_before);
      (void)accepting.close(kHang);
    }
    EXPECT_EQ(accepted.get().ok(), status.ok());
    return status;
  }
};

TEST_F(DeviceToken, IsTheCookieOfTheUserByDefault) {
  Device one = open(), two = open();
  EXPECT_EQ(mode(path("runtime/farwrite/token")), 0600u);
  EXPECT_TRUE(meet(one, two).ok());
}

TEST_F(DeviceToken, OfTheCookieEncryptsNothing) {
  Device one = open(), two = open();
  auto accepted = std::async(std::launch::async, [&] { return two.accept(kHang); });
  auto near = one.connect(two.endpoint(), kHang);
  ASSERT_TRUE(near.ok() && accepted.get().ok());
  EXPECT_FALSE(near->peer().encrypted);
}

TEST_F(DeviceToken, ThatDiffersIsRefusedNamingBothFiles) {
  Device one = open_in("a"), two = open_in("b");
  const Status refused = meet(one, two);
  EXPECT_EQ(refused.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(
      refused.message(),
      AllOf(HasSubstr("connecting side takes its token from the file " + path("a/farwrite/token")),
            HasSubstr("accepting side takes its token from the file " + path("b/farwrite/token")),
            HasSubstr("FARWRITE_TOKEN_FILE")));
  EXPECT_EQ(refused.message().find(read(path("b/farwrite/token")).substr(0, 64)),
            std::string::npos);
}

TEST_F(DeviceToken, OfAFileThatWasReplacedSaysSo) {
  Device one = open();
  std::filesystem::remove(path("runtime/farwrite/token"));
  Device two = open();
  const Status refused = meet(one, two);
  EXPECT_EQ(refused.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(refused.message(),
              AllOf(HasSubstr(path("runtime/farwrite/token")), HasSubstr("reopen the device")));
}

TEST_F(DeviceToken, OnOneSideAloneIsRefusedNamingItsFile) {
  for (const bool connecting_has_it : {false, true}) {
    Device with = open(), without = open(Token::none());
    const Status refused = connecting_has_it ? meet(with, without) : meet(without, with);
    EXPECT_EQ(refused.code(), StatusCode::kUnauthenticated);
    EXPECT_THAT(refused.message(), AllOf(HasSubstr(path("runtime/farwrite/token")),
                                         HasSubstr("token option is none")));
  }
}

TEST_F(DeviceToken, IsNeededAtAddressesOutsideTheLoopback) {
  for (const char* const host : {"0.0.0.0", "::"}) {
    const Status refused = Device::open(options(Token(), host)).status();
    EXPECT_EQ(refused.code(), StatusCode::kUnauthenticated) << host;
    EXPECT_THAT(refused.message(), AllOf(HasSubstr(host), HasSubstr("the option to none"),
                                         HasSubstr("FARWRITE_TOKEN_FILE")));
    EXPECT_TRUE(open("secret", host).valid());
    EXPECT_TRUE(open(Token::none(), host).valid());
  }
  for (const char* const host : {"127.0.0.2", "localhost", "::1"}) {
    const Status opened = Device::open(options(Token(), host)).status();
    EXPECT_TRUE(opened.ok()) << host << ": " << opened.message();
  }
}

TEST_F(DeviceToken, OfTheFileThatTheEnvironmentNamesHoldsEverywhere) {
  set("FARWRITE_TOKEN_FILE", path("shared"));
  Device one = open_in("a"), two = open_in("b"), everywhere = open(Token(), "0.0.0.0");
  EXPECT_FALSE(std::filesystem::exists(path("a/farwrite/token")));
  EXPECT_TRUE(meet(one, two).ok());
  EXPECT_TRUE(meet(one, everywhere).ok());
  set("FARWRITE_TOKEN_FILE", path("another"));
  Device stranger = open();
  const Status refused = meet(stranger, two);
  EXPECT_THAT(refused.message(), AllOf(HasSubstr(path("shared")), HasSubstr(path("another"))));
  Device own = open("secret"), peer = open("secret");
  EXPECT_TRUE(meet(own, peer).ok()) << "the option comes before the variable";
}

TEST_F(DeviceToken, OfTheFileThatTheEnvironmentNamesEncrypts) {
  if (!core::TlsLibrary::open().ok()) GTEST_SKIP() << "needs OpenSSL 3";
  set("FARWRITE_TOKEN_FILE", path("shared"));
  DeviceOptions encrypted = options();
  encrypted.encrypt = true;
  Device one = Device::open(encrypted).value(), two = Device::open(encrypted).value();
  EXPECT_TRUE(meet(one, two).ok());
}

TEST_F(DeviceToken, InAFileThatOthersReadKeepsTheDeviceClosed) {
  folder("runtime/farwrite");
  write(path("runtime/farwrite/token"), std::string(64, 'a'), 0644);
  const Status refused = Device::open(options()).status();
  EXPECT_EQ(refused.code(), StatusCode::kPermissionDenied);
  EXPECT_THAT(refused.message(), HasSubstr("chmod 600 " + path("runtime/farwrite/token")));
  EXPECT_TRUE(open("secret").valid());
  EXPECT_TRUE(open(Token::none()).valid());
}

TEST_F(DeviceToken, IsNotEmpty) {
  EXPECT_EQ(Device::open(options("")).status().code(), StatusCode::kInvalidArgument);
}

// What the plug-in for TensorFlow asks for.
TEST_F(DeviceToken, ThatIsNeededOnTheLoopbackAloneIsAskedForThere) {
  Device open_elsewhere = open(Token::cookie_else_none(), "0.0.0.0");
  Device friendly = open(), stranger = open(Token::none());
  EXPECT_EQ(open_elsewhere.endpoint().host, "0.0.0.0");
  EXPECT_TRUE(meet(friendly, open_elsewhere).ok());
  auto refused = stranger.connect({"127.0.0.1", open_elsewhere.endpoint().port}, kHang);
  EXPECT_EQ(refused.status().code(), StatusCode::kUnauthenticated);
}

}  // namespace
}  // namespace farwrite
