#include "unit/handshake_fixture.h"

namespace farwrite::device {
namespace {

TEST_F(Handshake, IntroducesBothSidesToEachOther) {
  meet();
  ASSERT_TRUE(connected_->ok()) << connected_->status().to_string();
  ASSERT_TRUE(accepted_->ok()) << accepted_->status().to_string();
  const PeerInfo& seen = (*connected_)->peer;
  EXPECT_EQ(seen.endpoint, accepting_.endpoint);
  EXPECT_EQ(seen.uuid, accepting_.uuid);
  EXPECT_EQ(seen.epoch, 22u);
  EXPECT_EQ(seen.lanes, 2u) << "both sides use the smaller number";
  EXPECT_EQ(seen.fabric, FabricKind::kShm);
  EXPECT_EQ(seen.fabric_reason, "the only fabric allowed, by both sides");
  EXPECT_EQ((*accepted_)->peer.endpoint, connecting_.endpoint);
  EXPECT_EQ((*accepted_)->peer.epoch, 11u);
  EXPECT_EQ((*accepted_)->peer.lanes, 2u);
  EXPECT_EQ((*accepted_)->peer.fabric_reason, seen.fabric_reason);
  EXPECT_EQ((*connected_)->wire_version, 2);
  EXPECT_NE((*connected_)->link, nullptr);
  EXPECT_NE((*accepted_)->link, nullptr);
}

TEST_F(Handshake, GivesTheFabricOneSecretOnBothSidesAndAnotherEveryTime) {
  meet();
  ASSERT_TRUE(connected_->ok() && accepted_->ok());
  const fabric::AttachRequest& one = connecting_shm_.requests.at(0);
  const fabric::AttachRequest& two = accepting_shm_.requests.at(0);
  EXPECT_EQ(one.secret, two.secret);
  EXPECT_TRUE(one.connecting);
  EXPECT_FALSE(two.connecting);
  EXPECT_EQ(one.peer_address, accepting_shm_.address());
  EXPECT_EQ(one.lanes, two.lanes);
  EXPECT_EQ(one.observer, &observer_);
  accepted_->value().link.reset();
  connected_->value().link.reset();
  meet();
  ASSERT_TRUE(connected_->ok() && accepted_->ok());
  EXPECT_NE(connecting_shm_.requests.at(1).secret, connecting_shm_.requests.at(0).secret);
  connected_.reset();
  accepted_.reset();
}

// --- Versions.

TEST_F(Handshake, SpeaksTheHighestVersionInCommon) {
  connecting_.versions = {1, 2};
  accepting_.versions = {2, 3};
  meet();
  ASSERT_TRUE(connected_->ok() && accepted_->ok());
  EXPECT_EQ((*connected_)->wire_version, 2);
  EXPECT_EQ((*accepted_)->wire_version, 2);
}

TEST_F(Handshake, WorksBetweenNeighbouringReleases) {
  connecting_.versions = {4, 5};
  accepting_.versions = {3, 4};
  meet();
  ASSERT_TRUE(connected_->ok() && accepted_->ok());
  EXPECT_EQ((*accepted_)->wire_version, 4);
}

TEST_F(Handshake, RefusesVersionsApartNamingBothRanges) {
  connecting_.versions = {1, 1};
  accepting_.versions = {2, 3};
  meet();
  expect_refused(StatusCode::kVersionMismatch, {"1 to 1", "2 to 3"});
}

TEST_F(Handshake, RefusesAVersionThatWasNotOffered) {
  std::thread server([&] {
    (void)receive_frame(accepting_socket_.get(), later(), "test");
    HelloReply reply;
    reply.hello = Hello::of(accepting_);
    reply.version = 9;
    (void)send_frame(accepting_socket_.get(), ControlFrameType::kHelloReply,
                     view_of(reply.to_bytes()), later(), "test");
  });
  const auto refused = introduce_connecting(connecting_socket_.get(), connecting_, "127.0.0.1:2222",
                                            later(), &observer_);
  server.join();
  EXPECT_EQ(refused.status().code(), StatusCode::kProtocolError);
}

// The first release sent no name and no origin of its token: eight bytes less, for empty ones.
TEST_F(Handshake, MeetsHellosOfEarlierAndOfLaterReleases) {
  for (const int appended : {-8, 12}) {
    renew_sockets();
    start_accepting();
    const Hello hello = Hello::of(connecting_);
    std::vector<std::byte> bytes = hello.to_bytes();
    bytes.resize(bytes.size() + static_cast<std::size_t>(appended), std::byte{0xee});
    send(ControlFrameType::kHello, bytes);
    const auto reply = HelloReply::from_bytes(view_of(receive().body)).value();
    const Transcript transcript(hello, reply.hello, "");
    EXPECT_EQ(reply.proof, transcript.accepting_proof);
    send(ControlFrameType::kProof,
         {transcript.connecting_proof.begin(), transcript.connecting_proof.end()});
    EXPECT_EQ(receive().type, ControlFrameType::kTryFabric);
    connecting_socket_.reset();
    thread_.join();
  }
}

// --- Tokens.

TEST_F(Handshake, LetsTheSameTokenThrough) {
  connecting_.token = accepting_.token = "secret";
  meet();
  EXPECT_TRUE(connected_->ok() && accepted_->ok());
}

TEST_F(Handshake, RefusesAnotherTokenBeforeAnyFabricIsTouched) {
  connecting_.token = "secret";
  accepting_.token = "Secret";
  meet();
  expect_refused(StatusCode::kUnauthenticated, {"token"});
  EXPECT_TRUE(connecting_shm_.requests.empty());
  EXPECT_TRUE(accepting_shm_.requests.empty());
}

TEST_F(Handshake, RefusesATokenOnOneSideOnly) {
  accepting_.token = "secret";
  meet();
  expect_refused(StatusCode::kUnauthenticated, {"token", "none"});
  EXPECT_TRUE(accepting_shm_.requests.empty());
}

TEST_F(Handshake, NamesWhereEachTokenComesFromOnBothSides) {
  connecting_.token = "secret";
  connecting_.token_origin = "the file /a/token";
  for (const char* const token : {"Secret", ""}) {
    renew_sockets();
    accepting_.token = token;
    accepting_.token_origin = *token == '\0' ? "" : "the file /b/token";
    meet();
    expect_refused(StatusCode::kUnauthenticated,
                   {"the connecting side takes its token from the file /a/token",
                    *token == '\0' ? "the accepting side has none"
                                   : "the accepting side takes its token from the file /b/token",
                    "FARWRITE_TOKEN_FILE"});
  }
}

TEST_F(Handshake, RefusesItsOwnProofSentBack) {
  accepting_.token = "secret";
  start_accepting();
  LocalIdentity stranger = connecting_;
  stranger.token = "a guess";
  send(ControlFrameType::kHello, Hello::of(stranger).to_bytes());
  const auto reply = HelloReply::from_bytes(view_of(receive().body)).value();
  send(ControlFrameType::kProof, {reply.proof.begin(), reply.proof.end()});
  EXPECT_EQ(refusal().code(), StatusCode::kUnauthenticated);
  thread_.join();
  EXPECT_EQ(accepted_->status().code(), StatusCode::kUnauthenticated);
  EXPECT_TRUE(accepting_shm_.requests.empty());
}

TEST_F(Handshake, NeverShowsItsProofToAServerWithoutTheToken) {
  // A server without the token answers with the client's own hello and a proof it cannot make.
  connecting_.token = "secret";
  std::thread server([&] {
    const Frame frame = receive_frame(accepting_socket_.get(), later(), "test").value();
    HelloReply reply;
    reply.hello = Hello::from_bytes(view_of(frame.body)).value();
    reply.version = reply.hello.versions.max;
    (void)send_frame(accepting_socket_.get(), ControlFrameType::kHelloReply,
                     view_of(reply.to_bytes()), later(), "test");
    const Frame answer = receive_frame(accepting_socket_.get(), later(), "test").value();
    EXPECT_EQ(answer.type, ControlFrameType::kRefuse)
        << "the client showed its proof to a stranger";
  });
  const auto refused = introduce_connecting(connecting_socket_.get(), connecting_, "127.0.0.1:2222",
                                            later(), &observer_);
  server.join();
  EXPECT_EQ(refused.status().code(), StatusCode::kUnauthenticated);
}

TEST_F(Handshake, RefusesAReplay) {
  connecting_.token = accepting_.token = "secret";
  const Hello hello = Hello::of(connecting_);
  start_accepting();
  send(ControlFrameType::kHello, hello.to_bytes());
  const auto first = HelloReply::from_bytes(view_of(receive().body)).value();
  const core::Digest proof = Transcript(hello, first.hello, "secret").connecting_proof;
  send(ControlFrameType::kProof, {proof.begin(), proof.end()});
  ASSERT_EQ(receive().type, ControlFrameType::kTryFabric);
  connecting_socket_.reset();
  thread_.join();

  renew_sockets();
  start_accepting();
  send(ControlFrameType::kHello, hello.to_bytes());
  EXPECT_EQ(receive().type, ControlFrameType::kHelloReply);
  send(ControlFrameType::kProof, {proof.begin(), proof.end()});
  EXPECT_EQ(refusal().code(), StatusCode::kUnauthenticated);
  thread_.join();
}

TEST_F(Handshake, RefusesProofsOfAnyOtherLength) {
  for (const std::size_t length : {std::size_t{0}, std::size_t{31}, std::size_t{33}}) {
    renew_sockets();
    start_accepting();
    const Hello hello = Hello::of(connecting_);
    send(ControlFrameType::kHello, hello.to_bytes());
    const auto reply = HelloReply::from_bytes(view_of(receive().body)).value();
    const core::Digest proof = Transcript(hello, reply.hello, "").connecting_proof;
    std::vector<std::byte> bytes(proof.begin(), proof.end());
    bytes.resize(length);
    send(ControlFrameType::kProof, bytes);
    EXPECT_EQ(refusal().code(), StatusCode::kUnauthenticated) << length;
    thread_.join();
  }
}

// --- Fabrics.

class FabricChoice : public Handshake {
 protected:
  void use(std::vector<fabric::Fabric*> connecting, std::vector<fabric::Fabric*> accepting) {
    connecting_.fabrics = std::move(connecting);
    accepting_.fabrics = std::move(accepting);
    meet();
  }
  void expect_choice(FabricKind kind, const std::string& reason) {
    ASSERT_TRUE(connected_->ok()) << connected_->status().to_string();
    ASSERT_TRUE(accepted_->ok()) << accepted_->status().to_string();
    for (const PeerInfo& peer : {(*connected_)->peer, (*accepted_)->peer}) {
      EXPECT_EQ(peer.fabric, kind);
      EXPECT_NE(peer.fabric_reason.find(reason), std::string::npos) << peer.fabric_reason;
    }
    EXPECT_NE((*connected_)->link, nullptr);
    EXPECT_NE((*accepted_)->link, nullptr);
  }
  FakeFabric connecting_tcp_{FabricKind::kTcp}, accepting_tcp_{FabricKind::kTcp};
  FakeFabric broken_{FabricKind::kShm, Status(StatusCode::kUnavailable, "no memory in common")};
};

TEST_F(FabricChoice, FollowsTheConnectingSidesOrder) {
  use({&connecting_tcp_, &connecting_shm_}, {&accepting_shm_, &accepting_tcp_});
  expect_choice(FabricKind::kTcp, "first fabric in common");
  EXPECT_TRUE(accepting_shm_.requests.empty());
}

TEST_F(FabricChoice, SkipsWhatOneSideDoesNotHave) {
  use({&connecting_tcp_, &connecting_shm_}, {&accepting_shm_});
  expect_choice(FabricKind::kShm, "only fabric allowed, by the accepting side");
}

TEST_F(FabricChoice, SaysWhichSideAllowsNoOther) {
  use({&connecting_tcp_}, {&accepting_shm_, &accepting_tcp_});
  expect_choice(FabricKind::kTcp, "only fabric allowed, by the connecting side");
}

TEST_F(FabricChoice, FallsBackWhenItFailsOnTheConnectingSideAndSaysWhy) {
  use({&broken_, &connecting_tcp_}, {&accepting_shm_, &accepting_tcp_});
  expect_choice(FabricKind::kTcp, "shm: no memory in common");
  EXPECT_EQ(accepting_shm_.alive_links, 0) << "half a link is left";
}

TEST_F(FabricChoice, FallsBackWhenItFailsOnTheAcceptingSideAndSaysWhy) {
  use({&connecting_shm_, &connecting_tcp_}, {&broken_, &accepting_tcp_});
  expect_choice(FabricKind::kTcp, "shm: no memory in common");
  EXPECT_EQ(connecting_shm_.alive_links, 0) << "half a link is left";
}

TEST_F(FabricChoice, FailsWhenThereIsNoneInCommonNamingBothSides) {
  use({&connecting_tcp_}, {&accepting_shm_});
  expect_refused(StatusCode::kUnavailable,
                 {"no fabric in common", "connecting side has tcp", "accepting side shm"});
}

TEST_F(FabricChoice, FailsWhenNoneIsLeftNamingAll) {
  FakeFabric broken_tcp(FabricKind::kTcp, Status(StatusCode::kUnavailable, "port filtered"));
  use({&broken_, &connecting_tcp_}, {&accepting_shm_, &broken_tcp});
  expect_refused(StatusCode::kUnavailable,
                 {"shm: no memory in common", "tcp: port filtered", "farwrite info"});
  EXPECT_EQ(connecting_tcp_.alive_links, 0);
}

// --- Peers that do not keep to the order.

TEST_F(Handshake, EndsAtItsDeadlineWhenThePeerIsSilent) {
  const auto soon = core::Deadline::after(std::chrono::milliseconds(30));
  const auto connected = introduce_connecting(connecting_socket_.get(), connecting_,
                                              "127.0.0.1:2222", soon, &observer_);
  EXPECT_EQ(connected.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(connected.status().message().find("127.0.0.1:2222"), std::string::npos)
      << connected.status().message();
}

TEST_F(Handshake, TellsThePeerWhenItGivesUpAfterTheFabricWorked) {
  std::vector<ControlFrameType> heard;
  std::thread server([&] {
    const Frame frame = receive_frame(accepting_socket_.get(), later(), "test").value();
    const Hello hello = Hello::from_bytes(view_of(frame.body)).value();
    HelloReply reply;
    reply.hello = Hello::of(accepting_);
    reply.version = reply.hello.versions.max;
    reply.proof = Transcript(hello, reply.hello, "").accepting_proof;
    const TryFabric attempt{FabricKind::kShm, "address"};
    (void)send_frame(accepting_socket_.get(), ControlFrameType::kHelloReply,
                     view_of(reply.to_bytes()), later(), "test");
    (void)send_frame(accepting_socket_.get(), ControlFrameType::kTryFabric,
                     view_of(attempt.to_bytes()), later(), "test");
    for (auto next = receive_frame(accepting_socket_.get(), later(), "test");
         next.ok() && heard.size() < 4;
         next = receive_frame(accepting_socket_.get(), later(), "test")) {
      heard.push_back(next->type);
    }
  });
  const auto soon = core::Deadline::after(std::chrono::seconds(2));
  const auto refused = introduce_connecting(connecting_socket_.get(), connecting_, "127.0.0.1:2222",
                                            soon, &observer_);
  connecting_socket_.reset();
  server.join();
  EXPECT_EQ(refused.status().code(), StatusCode::kDeadlineExceeded);
  EXPECT_EQ(heard, (std::vector<ControlFrameType>{
                       ControlFrameType::kProof, ControlFrameType::kFabricResult,
                       ControlFrameType::kRefuse, ControlFrameType::kFin}));
  EXPECT_EQ(connecting_shm_.alive_links, 0);
}

TEST_F(Handshake, RefusesMessagesOutOfOrder) {
  for (const ControlFrameType type :
       {ControlFrameType::kProof, ControlFrameType::kWelcome, ControlFrameType::kLookup,
        ControlFrameType::kFabricResult, static_cast<ControlFrameType>(999)}) {
    renew_sockets();
    start_accepting();
    send(type, {});
    thread_.join();
    EXPECT_EQ(accepted_->status().code(), StatusCode::kProtocolError);
  }
}

TEST_F(Handshake, DoesNotTakeAWelcomeWithoutALink) {
  std::thread server([&] {
    const Frame frame = receive_frame(accepting_socket_.get(), later(), "test").value();
    const Hello hello = Hello::from_bytes(view_of(frame.body)).value();
    HelloReply reply;
    reply.hello = Hello::of(accepting_);
    reply.version = reply.hello.versions.max;
    reply.proof = Transcript(hello, reply.hello, "").accepting_proof;
    (void)send_frame(accepting_socket_.get(), ControlFrameType::kHelloReply,
                     view_of(reply.to_bytes()), later(), "test");
    (void)send_frame(accepting_socket_.get(), ControlFrameType::kWelcome, {"hi", 2}, later(),
                     "test");
  });
  const auto refused = introduce_connecting(connecting_socket_.get(), connecting_, "127.0.0.1:2222",
                                            later(), &observer_);
  server.join();
  EXPECT_EQ(refused.status().code(), StatusCode::kProtocolError);
}

}  // namespace
}  // namespace farwrite::device
