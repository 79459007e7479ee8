#include "device/hello.h"

#include <gtest/gtest.h>

#include <set>

#include "core/option.h"
#include "core/status_wire.h"
#include "unit/damage.h"

namespace farwrite::device {
namespace {

Hello some_hello() {
  LocalIdentity self;
  self.versions = {1, 2};
  self.uuid[15] = 6;
  self.epoch = 1234;
  self.endpoint = {"::1", 80};
  self.lanes = 3;
  self.token = "t";
  self.name = "/job:ps/task:1";
  self.token_origin = "the file /home/a/token";
  self.service = "box";
  Hello hello = Hello::of(self);
  hello.fabrics = {FabricKind::kTcp, FabricKind::kShm};
  return hello;
}

std::size_t on_the_wire(const std::string& text) { return sizeof(std::uint32_t) + text.size(); }

// As the first release wrote it: it ended before the name, the origin of the token and the service.
std::vector<std::byte> of_first_release(const Hello& hello) {
  std::vector<std::byte> bytes = hello.to_bytes();
  bytes.resize(bytes.size() - on_the_wire(hello.name) - on_the_wire(hello.token_origin) -
               on_the_wire(hello.service));
  return bytes;
}

TEST(Hello, KeepsEveryField) {
  const Hello hello = some_hello();
  const Hello read = Hello::from_bytes(view_of(hello.to_bytes())).value();
  EXPECT_EQ(read.versions.min, 1);
  EXPECT_EQ(read.versions.max, 2);
  EXPECT_EQ(read.uuid, hello.uuid);
  EXPECT_EQ(read.epoch, 1234u);
  EXPECT_EQ(read.nonce, hello.nonce);
  EXPECT_TRUE(read.has_token);
  EXPECT_EQ(read.lanes, 3u);
  EXPECT_EQ(read.endpoint, hello.endpoint);
  EXPECT_EQ(read.fabrics, hello.fabrics);
  EXPECT_EQ(read.name, "/job:ps/task:1");
  EXPECT_EQ(read.token_origin, "the file /home/a/token");
  EXPECT_EQ(read.service, "box");
}

TEST(Hello, OfTheFirstReleaseHasNeitherNameNorOriginNorService) {
  const Hello hello = some_hello();
  const Hello read = Hello::from_bytes(view_of(of_first_release(hello))).value();
  EXPECT_EQ(read.name, "");
  EXPECT_EQ(read.token_origin, "");
  EXPECT_EQ(read.service, "");
  EXPECT_EQ(read.nonce, hello.nonce);
  EXPECT_EQ(Transcript(read, read, "t").secret, Transcript(hello, hello, "t").secret)
      << "it does not know them, so no proof covers them";
}

TEST(Hello, HasAPrintableNameOfBoundedLength) {
  Hello hello = some_hello();
  hello.name = "a\n\x1b[31mb";
  EXPECT_EQ(Hello::from_bytes(view_of(hello.to_bytes())).value().name, "a??[31mb");
  hello.name = std::string(core::kMaxDeviceNameBytes + 1, 'n');
  EXPECT_FALSE(Hello::from_bytes(view_of(hello.to_bytes())).ok());
}

TEST(Hello, HasAPrintableServiceOfBoundedLength) {
  Hello hello = some_hello();
  hello.service = "b\nx";
  EXPECT_EQ(Hello::from_bytes(view_of(hello.to_bytes())).value().service, "b?x");
  hello.service = std::string(65, 's');
  EXPECT_FALSE(Hello::from_bytes(view_of(hello.to_bytes())).ok());
}

TEST(Hello, NamesThePeerBesideItsEndpoint) {
  EXPECT_EQ(describe_peer("/job:ps/task:1", "[::1]:80"), "/job:ps/task:1 ([::1]:80)");
  EXPECT_EQ(describe_peer("", "[::1]:80"), "[::1]:80");
}

TEST(Hello, HasAFreshNonceEveryTime) { EXPECT_NE(some_hello().nonce, some_hello().nonce); }

TEST(Hello, NeverHoldsTheToken) {
  LocalIdentity self;
  self.token = "a-token-that-must-stay-secret";
  const std::vector<std::byte> bytes = Hello::of(self).to_bytes();
  const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(text.find(self.token), std::string::npos);
}

TEST(Hello, BoundsAndCleansWhatAPeerSaysOfItsToken) {
  Hello hello = some_hello();
  hello.token_origin = "a\n\x1b[31m" + std::string(600, 'b');
  const Hello read = Hello::from_bytes(view_of(hello.to_bytes())).value();
  EXPECT_EQ(read.token_origin, "a??[31m" + std::string(505, 'b'));
}

TEST(Hello, ToleratesAppendedFieldsAndNothingElse) {
  std::vector<std::byte> bytes = some_hello().to_bytes();
  const std::vector<std::byte> first = of_first_release(some_hello());
  expect_truncations_refused(first, Hello::from_bytes);
  const std::size_t without_service = bytes.size() - on_the_wire(some_hello().service);
  const std::size_t without_origin = without_service - on_the_wire(some_hello().token_origin);
  for (std::size_t length = first.size(); length < bytes.size(); ++length) {
    EXPECT_EQ(Hello::from_bytes({bytes.data(), length}).ok(),
              length == first.size() || length == without_origin || length == without_service)
        << length;
  }
  survive_noise(bytes, Hello::from_bytes);
  bytes.resize(bytes.size() + 9, std::byte{0xee});
  EXPECT_TRUE(Hello::from_bytes(view_of(bytes)).ok());
  bytes[0] ^= std::byte{1};
  const Status status = Hello::from_bytes(view_of(bytes)).status();
  EXPECT_EQ(status.code(), StatusCode::kProtocolError);
  EXPECT_NE(status.message().find("does not use Farwrite"), std::string::npos);
  Hello no_lanes = some_hello();
  no_lanes.lanes = 0;
  EXPECT_FALSE(Hello::from_bytes(view_of(no_lanes.to_bytes())).ok());
  Hello many = some_hello();
  many.fabrics.assign(17, FabricKind::kShm);
  EXPECT_FALSE(Hello::from_bytes(view_of(many.to_bytes())).ok());
}

TEST(HelloReply, SurvivesTheWire) {
  HelloReply reply;
  reply.hello = some_hello();
  reply.version = 2;
  reply.proof[31] = std::byte{8};
  const std::vector<std::byte> bytes = reply.to_bytes();
  std::vector<std::byte> first = bytes;
  first.resize(first.size() - reply.hello.to_bytes().size() + of_first_release(reply.hello).size());
  expect_truncations_refused(first, HelloReply::from_bytes);
  survive_noise(bytes, HelloReply::from_bytes);
  const HelloReply read = HelloReply::from_bytes(view_of(bytes)).value();
  EXPECT_EQ(read.version, 2);
  EXPECT_EQ(read.proof, reply.proof);
  EXPECT_EQ(read.hello.nonce, reply.hello.nonce);
}

TEST(TryFabric, SurvivesTheWire) {
  const std::vector<std::byte> bytes = TryFabric{FabricKind::kTcp, "address"}.to_bytes();
  expect_truncations_refused(bytes, TryFabric::from_bytes);
  survive_noise(bytes, TryFabric::from_bytes);
  const TryFabric read = TryFabric::from_bytes(view_of(bytes)).value();
  EXPECT_EQ(read.kind, FabricKind::kTcp);
  EXPECT_EQ(read.address, "address");
}

TEST(StatusOnTheWire, SurvivesIt) {
  const Status sent(StatusCode::kPeerRestarted, "why; what to do");
  const auto decode = [](ByteView bytes) {
    Status ignored;
    return core::status_from_bytes(bytes, ignored);
  };
  const std::vector<std::byte> bytes = core::status_to_bytes(sent);
  expect_truncations_refused(bytes, decode);
  survive_noise(bytes, decode);
  Status read;
  ASSERT_TRUE(core::status_from_bytes(view_of(bytes), read).ok());
  EXPECT_EQ(read.code(), sent.code());
  EXPECT_EQ(read.message(), sent.message());
  ASSERT_TRUE(core::status_from_bytes(view_of(core::status_to_bytes(Status())), read).ok());
  EXPECT_TRUE(read.ok());
  std::vector<std::byte> unknown = bytes;
  unknown[0] = std::byte{200};
  EXPECT_EQ(core::status_from_bytes(view_of(unknown), read).code(), StatusCode::kProtocolError);
  ASSERT_TRUE(core::status_from_bytes(view_of(core::status_to_bytes(
                                          Status(StatusCode::kInternal, std::string(100000, 'x')))),
                                      read)
                  .ok());
  EXPECT_EQ(read.code(), StatusCode::kInternal);
}

TEST(WireVersions, OverlapInTheHighest) {
  EXPECT_EQ(choose_version({1, 2}, {2, 3}).value(), 2);
  EXPECT_EQ(choose_version({2, 3}, {1, 2}).value(), 2);
  EXPECT_EQ(choose_version({1, 1}, {1, 2}).value(), 1);
  EXPECT_EQ(choose_version({2, 3}, {2, 3}).value(), 3);
}

TEST(WireVersions, ApartAreRefusedNamingBothRanges) {
  const Status status = choose_version({1, 1}, {2, 3}).status();
  EXPECT_EQ(status.code(), StatusCode::kVersionMismatch);
  EXPECT_NE(status.message().find("1 to 1"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("2 to 3"), std::string::npos) << status.message();
  EXPECT_FALSE(choose_version({2, 3}, {1, 1}).ok());
  EXPECT_FALSE(choose_version({1, 3}, {3, 2}).ok()) << "an empty range";
}

TEST(Transcript, DependsOnEverythingBothSidesSaid) {
  const Hello connecting = some_hello();
  const Hello accepting = some_hello();
  const Transcript base(connecting, accepting, "token");
  EXPECT_EQ(Transcript(connecting, accepting, "token").secret, base.secret);
  std::set<core::Digest> digests{base.accepting_proof, base.connecting_proof, base.secret};
  EXPECT_EQ(digests.size(), 3u) << "a proof could be reflected";
  const auto expect_other = [&](const Transcript& other) {
    EXPECT_TRUE(digests.insert(other.accepting_proof).second);
    EXPECT_TRUE(digests.insert(other.connecting_proof).second);
    EXPECT_TRUE(digests.insert(other.secret).second);
  };
  expect_other(Transcript(connecting, accepting, "other"));
  expect_other(Transcript(connecting, accepting, ""));
  expect_other(Transcript(accepting, connecting, "token"));
  Hello changed = connecting;
  changed.nonce[0] ^= std::byte{1};
  expect_other(Transcript(changed, accepting, "token"));
  expect_other(Transcript(connecting, changed, "token"));
  changed = connecting;
  changed.fabrics.pop_back();  // a downgrade by something in between
  expect_other(Transcript(changed, accepting, "token"));
  changed = connecting;
  changed.versions.max = 1;
  expect_other(Transcript(changed, accepting, "token"));
  changed = connecting;
  changed.token_origin = "the file /elsewhere";
  changed.service = "another";
  EXPECT_EQ(Transcript(changed, accepting, "token").secret, base.secret)
      << "the first release does not know these fields";
}

}  // namespace
}  // namespace farwrite::device
