// A verbs link against a peer that says what it likes, by hand.
#include "unit/software_rnic_fixture.h"
#include "unit/verbs_link_fixture.h"

namespace farwrite::fabric::verbs {
namespace {

using testing::HasSubstr;

constexpr std::uint8_t kSecret = 9;

class ForgedVerbsPeer : public VerbsPair {
 protected:
  // Beside it an honest link, a_ to b_, that must not notice.
  ForgedVerbsPeer() {
    make();
    secret_.fill(static_cast<std::byte>(kSecret));
    peer_ = std::make_unique<verbs_double::Side>(*rnic_, verbs_double::SideOptions{256, 64, 1024});
  }
  ~ForgedVerbsPeer() override {
    forged_.link.reset();
    if (accepting_.valid()) (void)accepting_.get();
    peer_.reset();
    EXPECT_EQ(a_.recorder.errors + a_.recorder.deaths, 0);
    EXPECT_EQ(b_.recorder.errors + b_.recorder.deaths, 0);
    expect_ok(a_.notify(77));
    EXPECT_TRUE(until([&] { return b_.recorder.taken.size() == 1; }));
  }

  void accept(std::chrono::nanoseconds patience = kPatience) {
    accepting_ = std::async(std::launch::async, [this, patience] {
      auto request = attach_request(false, *host_b_->fabric, 1, kSecret);
      request.observer = &forged_.recorder;
      request.deadline = core::Deadline::after(patience);
      return host_b_->fabric->attach(request);
    });
  }
  // What rdma_cm says to a connection with this private data.
  rdma_cm_event_type connect(std::string_view join) {
    const std::string address = host_b_->fabric->address();
    const auto port = static_cast<std::uint16_t>(std::stoi(address.substr(address.find(' '))));
    peer_->resolve("127.0.0.1", port);
    for (int i = 0; i < 64; ++i) EXPECT_EQ(peer_->post_receive(&peer_->buffer(kBounceBytes), i), 0);
    auto parameters = verbs_double::Side::parameters(join);
    EXPECT_EQ(rnic_->connect(peer_->id, &parameters), 0);
    return peer_->event().type;
  }
  void join() {
    const auto bytes = JoinMessage::of(secret_, 0, 1).to_bytes();
    const std::string text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    ASSERT_EQ(connect(text), RDMA_CM_EVENT_ESTABLISHED);
  }
  void send(const std::vector<std::byte>& bytes) {
    auto& buffer = peer_->buffer(std::max<std::size_t>(1, bytes.size()));
    std::copy(bytes.begin(), bytes.end(), buffer.bytes.begin());
    ASSERT_EQ(peer_->post(IBV_WR_SEND, buffer, bytes.size(), nullptr, 1000), 0);
  }
  static std::vector<std::byte> message(MessageType type,
                                        const std::vector<std::byte>& payload = {},
                                        std::uint64_t value = 0) {
    MessageHeader header;
    header.type = type;
    header.value = value;
    const auto bytes = header.to_bytes();
    std::vector<std::byte> all(bytes.begin(), bytes.end());
    all.insert(all.end(), payload.begin(), payload.end());
    return all;
  }
  // The next message from the link.
  MessageHeader hear() {
    ibv_wc seen{};
    do {
      seen = peer_->completion();
    } while (seen.status == IBV_WC_SUCCESS && seen.wr_id == 1000);
    EXPECT_EQ(seen.status, IBV_WC_SUCCESS);
    const auto& bytes = peer_->buffers[seen.wr_id]->bytes;
    return MessageHeader::from_bytes({bytes.data(), seen.byte_len}).value();
  }
  std::vector<std::byte> proof() const {
    const core::Digest digest = lane_proof(secret_, true, 0);
    return {digest.begin(), digest.end()};
  }
  static HelloMessage hello() {
    HelloMessage message;
    message.credits = 8;
    message.message_bytes = kBounceBytes;
    return message;
  }
  Status attached() {
    auto link = accepting_.get();
    if (!link.ok()) return link.status();
    forged_.open(*host_b_->fabric, *std::move(link));
    return Status();
  }
  void greet() {
    accept();
    join();
    send(message(MessageType::kProof, proof()));
    ASSERT_EQ(hear().type, MessageType::kProof);
    send(message(MessageType::kHello, hello().to_bytes()));
    ASSERT_EQ(hear().type, MessageType::kHello);
    const Status made = attached();
    ASSERT_TRUE(made.ok()) << made.message();
  }
  bool hears(const std::function<bool()>& condition) {
    return until([&] {
      forged_.poll();
      return condition();
    });
  }
  // What the link says of its end.
  Status broken() {
    EXPECT_TRUE(hears([&] { return forged_.recorder.errors > 0; }));
    for (int i = 0; i < 10; ++i) forged_.poll();
    EXPECT_EQ(forged_.recorder.errors, 1);
    EXPECT_EQ(forged_.recorder.deaths, 0);
    EXPECT_FALSE(forged_.notify(1).wait(std::chrono::seconds(0)).ok());
    return forged_.recorder.broken;
  }

  Secret secret_{};
  std::unique_ptr<verbs_double::Side> peer_;
  std::future<Result<std::unique_ptr<Link>>> accepting_;
  Side forged_;  // the link's side
};

TEST_F(ForgedVerbsPeer, WithoutAJoinIsRejected) {
  EXPECT_EQ(connect(""), RDMA_CM_EVENT_REJECTED);
  peer_->close_id();
  EXPECT_EQ(connect("hello, who are you?"), RDMA_CM_EVENT_REJECTED);
  peer_->close_id();
  auto bytes = JoinMessage::of(secret_, 0, 1).to_bytes();
  bytes[4] = std::byte{kProtocolVersion + 1};
  EXPECT_EQ(connect({reinterpret_cast<const char*>(bytes.data()), bytes.size()}),
            RDMA_CM_EVENT_REJECTED);
}

TEST_F(ForgedVerbsPeer, WhoseHandshakeNobodyKnowsWaitsAndGivesNothingAway) {
  accept(std::chrono::milliseconds(100));
  Secret other{};
  other.fill(std::byte{3});
  const std::string address = host_b_->fabric->address();
  peer_->resolve("127.0.0.1",
                 static_cast<std::uint16_t>(std::stoi(address.substr(address.find(' ')))));
  const auto bytes = JoinMessage::of(other, 0, 1).to_bytes();
  auto parameters =
      verbs_double::Side::parameters({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  ASSERT_EQ(rnic_->connect(peer_->id, &parameters), 0);
  EXPECT_EQ(attached().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(verbs_double::readable(peer_->events->fd, 0)) << "neither taken nor refused";
}

TEST_F(ForgedVerbsPeer, WithAWrongProofIsToldNothing) {
  accept();
  join();
  auto wrong = proof();
  wrong.back() ^= std::byte{1};
  send(message(MessageType::kProof, wrong));
  const Status refused = attached();
  EXPECT_EQ(refused.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(refused.message(), HasSubstr("another program answers over verbs"));
  EXPECT_EQ(peer_->event().type, RDMA_CM_EVENT_DISCONNECTED);
  ibv_wc seen{};
  while (rnic_->poll_cq(peer_->queue, 1, &seen) == 1) EXPECT_EQ(seen.wr_id, 1000U) << "an answer";
}

TEST_F(ForgedVerbsPeer, WithTheProofOfTheOtherSideIsNobody) {
  accept();
  join();
  const core::Digest digest = lane_proof(secret_, false, 0);
  send(message(MessageType::kProof, {digest.begin(), digest.end()}));
  EXPECT_EQ(attached().code(), StatusCode::kUnauthenticated);
}

TEST_F(ForgedVerbsPeer, ThatSaysNothingIsGivenUp) {
  accept(std::chrono::seconds(2));  // from before it connects
  join();
  EXPECT_THAT(attached().message(), HasSubstr("the peer sent no greeting in time"));
}

TEST_F(ForgedVerbsPeer, ThatHangsUpWhileItGreetsIsGivenUpAtOnce) {
  accept();
  join();
  peer_->close_id();
  EXPECT_THAT(attached().message(), HasSubstr("the peer ended the connection"));
}

TEST_F(ForgedVerbsPeer, WhoseGreetingIsOddIsRefused) {
  HelloMessage no_credit = hello(), too_much = hello(), too_short = hello();
  no_credit.credits = 0;
  too_much.credits = 1U << 21;
  too_short.message_bytes = 100;
  const std::vector<std::vector<std::byte>> greetings = {
      message(MessageType::kHello, no_credit.to_bytes()),
      message(MessageType::kHello, too_much.to_bytes()),
      message(MessageType::kHello, too_short.to_bytes()),
      message(MessageType::kHello, {std::byte{1}}),
      message(MessageType::kRevoked, {}, 1),
      {std::byte{20}},
      message(static_cast<MessageType>(99)),
  };
  for (const auto& greeting : greetings) {
    accept();
    join();
    send(message(MessageType::kProof, proof()));
    ASSERT_EQ(hear().type, MessageType::kProof);
    send(greeting);
    EXPECT_EQ(attached().code(), StatusCode::kProtocolError);
    peer_ = std::make_unique<verbs_double::Side>(*rnic_, verbs_double::SideOptions{256, 64, 1024});
  }
}

TEST_F(ForgedVerbsPeer, IsServedIfItKeepsToTheRules) {
  greet();
  send(message(MessageType::kMessage, pattern(100)));
  ASSERT_TRUE(hears([&] { return forged_.recorder.taken.size() == 1; }));
  EXPECT_EQ(forged_.recorder.taken[0].message, pattern(100));
  for (int i = 0; i < 20; ++i) (void)forged_.tell(OperationKind::kRecord, 5);
  for (int i = 0; i < 8; ++i) EXPECT_EQ(hear().type, MessageType::kRecord);
  send(message(MessageType::kCredit, {}, 8));
  send(message(MessageType::kRevoke, regions_to_bytes({1, 2, 3}), 42));
  MessageHeader answer;
  ASSERT_TRUE(hears([&] {
    ibv_wc seen{};
    if (rnic_->poll_cq(peer_->queue, 1, &seen) != 1 || seen.wr_id == 1000) return false;
    const auto& bytes = peer_->buffers[seen.wr_id]->bytes;
    answer = MessageHeader::from_bytes({bytes.data(), seen.byte_len}).value();
    return answer.type == MessageType::kRevoked;
  }));
  EXPECT_EQ(answer.value, 42U);
}

TEST_F(ForgedVerbsPeer, ThatBreaksTheProtocolPoisonsItsLinkAndNoOther) {
  const auto shorter = [](std::vector<std::byte> bytes) {
    bytes.pop_back();
    return bytes;
  };
  const std::vector<std::pair<std::vector<std::byte>, const char*>> breakers = {
      {message(static_cast<MessageType>(0)), "unknown type"},
      {message(static_cast<MessageType>(200)), "unknown type"},
      {shorter(message(MessageType::kNotify)), "are left at"},
      {message(MessageType::kCredit, {}, 1), "more credit"},
      {message(MessageType::kCredit, {}, UINT64_MAX), "more credit"},
      {message(MessageType::kRevoked, {}, 0), "not requested"},
      {message(MessageType::kRevoke, {}, 0), "are left at"},
      {message(MessageType::kRevoke, shorter(regions_to_bytes({1, 2}))), "are left at"},
      {message(MessageType::kRevoke, std::vector<std::byte>(4, std::byte{0xff})), "too many"},
      {message(MessageType::kHello, hello().to_bytes()), "a second greeting"},
      {message(MessageType::kProof, proof()), "a second greeting"},
      {std::vector<std::byte>(kBounceBytes + 1), "longer than the receive"},
  };
  for (const auto& [bytes, why] : breakers) {
    SCOPED_TRACE(why);
    greet();
    send(bytes);
    const Status said = broken();
    EXPECT_EQ(said.code(), StatusCode::kProtocolError);
    EXPECT_THAT(said.message(), HasSubstr(why));
    forged_ = {};
    peer_ = std::make_unique<verbs_double::Side>(*rnic_, verbs_double::SideOptions{256, 64, 1024});
  }
}

TEST_F(ForgedVerbsPeer, ThatSendsWithoutCreditPoisonsItsLink) {
  greet();
  forged_.recorder.room = 0;
  for (int i = 0; i < 65; ++i) send(message(MessageType::kNotify));
  EXPECT_THAT(broken().message(), HasSubstr("without credit"));
  EXPECT_TRUE(forged_.recorder.taken.empty());
}

TEST_F(ForgedVerbsPeer, ThatFloodsWithWhatCostsNoCreditPoisonsItsLink) {
  greet();
  for (int i = 0; i < 20; ++i) send(message(MessageType::kRevoke, regions_to_bytes({1}), i));
  // All of them arrive before any thread polls.
  for (int i = 0; i < 20; ++i) EXPECT_EQ(peer_->completion().wr_id, 1000U);
  EXPECT_THAT(broken().message(), HasSubstr("too many messages at the same time"));
}

TEST_F(ForgedVerbsPeer, CannotReachBesideWhatItWasGranted) {
  greet();
  auto& bytes = peer_->buffer(64, verbs_double::kAllAccess, 0x77);
  ibv_sge piece{bytes.address(), 64, bytes.region->lkey};
  ibv_send_wr request{};
  request.wr_id = 1000;
  request.sg_list = &piece;
  request.num_sge = 1;
  request.opcode = IBV_WR_RDMA_WRITE;
  request.send_flags = IBV_SEND_SIGNALED;
  const SegmentKey key = SegmentKey::unpack(forged_.landing_key);
  request.wr.rdma.remote_addr = key.address + kSegment - 32;
  request.wr.rdma.rkey = key.remote_key;
  ASSERT_EQ(peer_->post(request), 0);
  ASSERT_TRUE(hears([&] { return forged_.recorder.deaths + forged_.recorder.errors == 1; }));
  EXPECT_EQ(forged_.landing->base()[kSegment - 1], std::byte{0});
}

}  // namespace
}  // namespace farwrite::fabric::verbs
