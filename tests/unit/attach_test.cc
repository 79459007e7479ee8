// How two sides set a link up, and what becomes of a peer that plays it wrong.
//
// The packets are written here field by field, so that a change of the wire form shows.
#include "fabric/shm/attach.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <future>
#include <utility>

#include "core/wire.h"

namespace farwrite::fabric::shm {
namespace {

constexpr std::uint32_t kMagic = 0x4d485346;
constexpr std::uint16_t kAttach = 1, kAttached = 2, kConfirm = 3;
constexpr std::chrono::seconds kAttachHang{30};

AttachRequest make_request(std::uint32_t lanes) {
  AttachRequest request;
  request.secret.fill(std::byte{7});
  request.peer_name = "127.0.0.1:7777";
  request.lanes = lanes;
  request.deadline = core::Deadline::after(kAttachHang);
  return request;
}

core::WireWriter header(std::uint16_t type) {
  core::WireWriter writer;
  writer.u32(kMagic);
  writer.u16(type);
  return writer;
}

void write_geometry(core::WireWriter& writer, const MailboxGeometry& geometry) {
  writer.u32(geometry.lanes);
  writer.u32(geometry.cells);
  writer.u32(geometry.rows);
}

// What an honest side sends along: a mailbox and its doorbells.
struct Half {
  explicit Half(std::uint32_t lanes) {
    geometry.lanes = lanes;
    mailbox = OwnMailbox::create(geometry).value();
    for (std::uint32_t lane = 0; lane < lanes; ++lane) {
      doorbells.emplace_back(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    }
  }
  std::vector<int> fds() const {
    std::vector<int> all{mailbox.segment->fd()};
    for (const core::UniqueFd& doorbell : doorbells) all.push_back(doorbell.get());
    return all;
  }

  MailboxGeometry geometry;
  OwnMailbox mailbox;
  std::vector<core::UniqueFd> doorbells;
};

Packet attach_packet(const Half& half) {
  core::WireWriter writer = header(kAttach);
  const core::Digest proof = attach_proof(make_request(1).secret);
  writer.bytes({proof.data(), proof.size()});
  write_geometry(writer, half.geometry);
  Packet packet;
  packet.bytes = writer.take();
  for (const int fd : half.fds()) packet.fds.emplace_back(::dup(fd));
  return packet;
}

class Attach : public testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    near_ = core::UniqueFd(pair[0]);
    far_ = core::UniqueFd(pair[1]);
  }

  std::future<Result<Attachment>> connecting(std::uint32_t lanes = 1) {
    return std::async(std::launch::async, [this, lanes] {
      return attach_connecting(std::move(near_), make_request(lanes));
    });
  }
  std::future<Result<Attachment>> accepting(AttachOffer offer, std::uint32_t lanes = 1) {
    return std::async(std::launch::async, [this, lanes, offer = std::move(offer)]() mutable {
      return attach_accepting(std::move(far_), std::move(offer), make_request(lanes));
    });
  }

  // The peer's part, played by hand at the far end.
  Packet take(const core::UniqueFd& socket) {
    return receive_packet(socket.get(), core::Deadline::after(kAttachHang), "test").value();
  }
  void put(const core::UniqueFd& socket, const core::WireWriter& packet,
           const std::vector<int>& fds = {}) {
    ASSERT_TRUE(
        send_packet(socket.get(), packet.view(), fds, core::Deadline::after(kAttachHang), "test")
            .ok());
  }
  // Answers a connecting side with `half`, after reading the nonce that it would read.
  Nonce nonce_in(Packet& attach) {
    core::WireReader reader({attach.bytes.data(), attach.bytes.size()});
    reader.bytes(4 + 2 + 32);
    MailboxGeometry geometry;
    geometry.lanes = reader.u32();
    geometry.cells = reader.u32();
    geometry.rows = reader.u32();
    return PeerMailbox::map(std::move(attach.fds.front()), geometry).value().nonce;
  }
  void answer(const Nonce& echo, const MailboxGeometry& geometry, const std::vector<int>& fds) {
    core::WireWriter attached = header(kAttached);
    attached.bytes({echo.data(), echo.size()});
    write_geometry(attached, geometry);
    ASSERT_NO_FATAL_FAILURE(put(far_, attached, fds));
  }

  core::UniqueFd near_, far_;
};

TEST_F(Attach, GivesBothSidesEachOthersMailboxAndDoorbells) {
  auto connected = connecting(3);
  auto offer = AttachOffer::decode(take(far_));
  ASSERT_TRUE(offer.ok()) << offer.status().to_string();
  EXPECT_EQ(offer->proof, attach_proof(make_request(3).secret));
  auto far = accepting(*std::move(offer), 3).get();
  auto near = connected.get();
  ASSERT_TRUE(near.ok()) << near.status().to_string();
  ASSERT_TRUE(far.ok()) << far.status().to_string();
  EXPECT_EQ(near->peer.nonce, far->own.nonce);
  EXPECT_EQ(far->peer.nonce, near->own.nonce);
  near->peer.view.row(1).inflight.store(5);
  EXPECT_EQ(far->own.view.row(1).inflight.load(), 5U);
  ASSERT_EQ(near->peer_doorbells.size(), 3U);
  ASSERT_EQ(far->own_doorbells.size(), 3U);
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(near->peer_doorbells[2].get(), &one, sizeof(one)), 8);
  pollfd entries[3];
  for (int lane = 0; lane < 3; ++lane) entries[lane] = {far->own_doorbells[lane].get(), POLLIN, 0};
  EXPECT_EQ(::poll(entries, 3, 0), 1);
  EXPECT_EQ(entries[2].revents, POLLIN);
}

TEST_F(Attach, ProvesTheSecretItWasGiven) {
  std::array<std::byte, 32> one{}, other{};
  other[31] = std::byte{1};
  EXPECT_NE(attach_proof(one), attach_proof(other));
  EXPECT_NE(attach_proof(one), core::Digest()) << "the secret itself must not be readable from it";
}

TEST_F(Attach, RefusesAFirstPacketThatIsNoAttach) {
  const Half half(1);
  const auto refused = [&](const std::function<void(Packet&)>& spoil) {
    Packet packet = attach_packet(half);
    spoil(packet);
    return AttachOffer::decode(std::move(packet)).status().code() == StatusCode::kProtocolError;
  };
  EXPECT_TRUE(AttachOffer::decode(attach_packet(half)).ok()) << "unspoiled";
  EXPECT_TRUE(refused([](Packet& packet) { packet.bytes.clear(); }));
  EXPECT_TRUE(refused([](Packet& packet) { packet.bytes.pop_back(); }));
  EXPECT_TRUE(refused([](Packet& packet) { packet.bytes.push_back({}); }));
  EXPECT_TRUE(refused([](Packet& packet) { packet.bytes[0] ^= std::byte{1}; })) << "magic";
  EXPECT_TRUE(refused([](Packet& packet) { packet.bytes[4] = std::byte{3}; })) << "type";
  EXPECT_TRUE(refused([](Packet& packet) { packet.fds.clear(); })) << "no descriptors";
  EXPECT_TRUE(
      refused([](Packet& packet) { packet.bytes.assign(kMaxPacketBytes, std::byte{0xff}); }));
}

TEST_F(Attach, TakesAnAcceptingSideThatCannotReadOurNonceForAnotherHost) {
  auto connected = connecting();
  take(far_);
  const Half half(1);
  Nonce guessed{};
  ASSERT_NO_FATAL_FAILURE(answer(guessed, half.geometry, half.fds()));
  const Status status = connected.get().status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("nonce"), std::string::npos) << status.message();
}

TEST_F(Attach, TakesAConnectingSideThatCannotReadOurNonceForAnotherHost) {
  auto accepted = accepting(AttachOffer::decode(attach_packet(Half(1))).value());
  take(near_);
  core::WireWriter confirm = header(kConfirm);
  const Nonce guessed{};
  confirm.bytes({guessed.data(), guessed.size()});
  ASSERT_NO_FATAL_FAILURE(put(near_, confirm));
  EXPECT_EQ(accepted.get().status().code(), StatusCode::kUnavailable);
}

TEST_F(Attach, RefusesAnAnswerThatIsNoAttached) {
  auto connected = connecting();
  take(far_);
  ASSERT_NO_FATAL_FAILURE(put(far_, header(kAttached)));
  EXPECT_EQ(connected.get().status().code(), StatusCode::kProtocolError);
}

TEST_F(Attach, RefusesALastPacketThatIsNoConfirm) {
  auto accepted = accepting(AttachOffer::decode(attach_packet(Half(1))).value());
  take(near_);
  core::WireWriter wrong = header(kAttach);
  wrong.bytes({Nonce().data(), 0});
  ASSERT_NO_FATAL_FAILURE(put(near_, wrong));
  EXPECT_EQ(accepted.get().status().code(), StatusCode::kProtocolError);
}

TEST_F(Attach, RefusesAnOfferWithAnotherNumberOfLanes) {
  auto accepted = accepting(AttachOffer::decode(attach_packet(Half(2))).value(), 1);
  EXPECT_EQ(accepted.get().status().code(), StatusCode::kProtocolError);
}

TEST_F(Attach, RefusesAnAnswerWithoutADoorbellPerLane) {
  auto connected = connecting(2);
  Packet attach = take(far_);
  const Half half(2);
  std::vector<int> fds = half.fds();
  fds.pop_back();
  ASSERT_NO_FATAL_FAILURE(answer(nonce_in(attach), half.geometry, fds));
  EXPECT_EQ(connected.get().status().code(), StatusCode::kProtocolError);
}

TEST_F(Attach, RefusesAnAnswerWithoutDescriptors) {
  auto connected = connecting(1);
  Packet attach = take(far_);
  ASSERT_NO_FATAL_FAILURE(answer(nonce_in(attach), Half(1).geometry, {}));
  EXPECT_EQ(connected.get().status().code(), StatusCode::kProtocolError);
}

TEST_F(Attach, RefusesADoorbellThatIsNoEventfd) {
  const Half half(1);
  Packet packet = attach_packet(half);
  packet.fds.back() = core::UniqueFd(::dup(near_.get()));  // writing to it could block
  EXPECT_EQ(AttachOffer::decode(std::move(packet)).status().code(), StatusCode::kProtocolError);
}

TEST_F(Attach, RefusesAnImplausibleMailbox) {
  auto connected = connecting(1);
  Packet attach = take(far_);
  const Half half(1);
  MailboxGeometry implausible = half.geometry;
  implausible.cells = 3;
  ASSERT_NO_FATAL_FAILURE(answer(nonce_in(attach), implausible, half.fds()));
  EXPECT_EQ(connected.get().status().code(), StatusCode::kProtocolError);
}

TEST_F(Attach, RefusesAMailboxThatItsOwnerCouldShrink) {
  const Half half(1);
  Packet packet = attach_packet(half);
  core::UniqueFd unsealed(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(unsealed.get(), static_cast<off_t>(half.geometry.bytes())), 0);
  packet.fds.front() = std::move(unsealed);
  auto accepted = accepting(AttachOffer::decode(std::move(packet)).value());
  EXPECT_EQ(accepted.get().status().code(), StatusCode::kProtocolError);
}

TEST_F(Attach, EndsWhenThePeerLeaves) {
  auto connected = connecting();
  take(far_);
  far_.reset();
  EXPECT_EQ(connected.get().status().code(), StatusCode::kUnavailable);
}

TEST_F(Attach, EndsAtItsDeadline) {
  AttachRequest request = make_request(1);
  request.deadline = core::Deadline::after({});
  EXPECT_EQ(attach_connecting(std::move(near_), request).status().code(),
            StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace farwrite::fabric::shm
