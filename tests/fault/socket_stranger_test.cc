// A local process that has found the abstract unix socket of an shm fabric.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <limits>
#include <memory>
#include <thread>
#include <vector>

#include "core/event_loop.h"
#include "core/wire.h"
#include "fabric/shm/attach.h"
#include "fabric/shm/shm_fabric.h"
#include "fault/fixture.h"

namespace farwrite::fault {
namespace {

using fabric::shm::kMaxPacketFds;

core::Deadline socket_deadline() { return core::Deadline::after(kPatience); }

struct SocketObserver final : fabric::LinkObserver {
  void on_peer_dead(const Status&) override {}
  void on_link_error(const Status&) override {}
};

class UnixSocketStranger : public FaultTest {
 protected:
  core::UniqueFd dial() {
    core::UniqueFd socket;
    // The listener's backlog may be full for a moment.
    EXPECT_TRUE(eventually([&] {
      auto connected = fabric::shm::connect_abstract(fabric_->address(), socket_deadline());
      if (connected.ok()) socket = *std::move(connected);
      return connected.ok();
    }));
    return socket;
  }
  static void send(const core::UniqueFd& socket, ByteView bytes, const std::vector<int>& fds = {}) {
    ASSERT_TRUE(fabric::shm::send_packet(socket.get(), bytes, fds, socket_deadline(), "test").ok());
  }
  // An ATTACH as attach.cc writes it.
  static core::WireWriter attach_packet(const core::Digest& proof, std::uint32_t lanes = 1,
                                        std::uint32_t cells = 4096, std::uint32_t rows = 4096) {
    core::WireWriter writer;
    writer.u32(0x4d485346);
    writer.u16(1);
    writer.bytes({proof.data(), proof.size()});
    writer.u32(lanes);
    writer.u32(cells);
    writer.u32(rows);
    return writer;
  }
  static core::UniqueFd memory_file(std::uint64_t bytes, bool sealed) {
    core::UniqueFd fd(::memfd_create("farwrite-test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
    const int seals = sealed ? F_SEAL_SHRINK | F_SEAL_GROW : 0;
    EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
    return fd;
  }
  fabric::AttachRequest request(bool connecting) {
    fabric::AttachRequest request;
    request.connecting = connecting;
    request.secret[0] = std::byte{42};
    request.peer_name = "127.0.0.1:9";
    request.peer_address = fabric_->address();
    request.deadline = socket_deadline();
    request.observer = &observer_;
    return request;
  }
  // Two good sides still find each other.
  void expect_usable() {
    Result<std::unique_ptr<fabric::Link>> accepted = Status(StatusCode::kInternal, "");
    std::atomic<bool> failed{false};
    std::thread other([&] {
      fabric::AttachRequest accepting = request(false);
      accepting.abandoned = [&] { return failed.load(); };
      accepted = fabric_->attach(accepting);
    });
    auto connected = fabric_->attach(request(true));
    failed.store(!connected.ok());
    other.join();
    EXPECT_TRUE(connected.ok()) << connected.status().to_string();
    EXPECT_TRUE(accepted.ok()) << accepted.status().to_string();
  }
  // A stranger who knows the secret comes with this mailbox. How it ends for the accepting side.
  Status accept_with(const core::WireWriter& packet, const std::vector<int>& fds) {
    core::UniqueFd stranger = dial();
    send(stranger, packet.view(), fds);
    return fabric_->attach(request(false)).status();
  }
  void TearDown() override {
    fabric_.reset();
    loop_.reset();
    doorbell_.reset();
    FaultTest::TearDown();
  }

  SocketObserver observer_;
  core::UniqueFd doorbell_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  std::unique_ptr<core::EventLoop> loop_ = *core::EventLoop::start("test");
  std::unique_ptr<fabric::Fabric> fabric_ = *fabric::shm::ShmFabric::create(*loop_);
  const std::uint64_t mailbox_bytes_ = fabric::shm::MailboxGeometry().bytes();
  const core::Digest proof_ = fabric::shm::attach_proof(request(true).secret);
};

TEST_F(UnixSocketStranger, WithGarbageChangesNothing) {
  core::UniqueFd silent = dial();
  core::UniqueFd garbage = dial();
  const std::string text(300, 'x');
  send(garbage, {text.data(), text.size()});
  core::UniqueFd truncated = dial();
  send(truncated, {attach_packet(proof_).view().data, 20});
  core::UniqueFd gone = dial();
  gone.reset();
  core::UniqueFd no_fds = dial();
  send(no_fds, attach_packet(proof_).view());
  // A doorbell that could block the thread that rings it.
  const core::UniqueFd mailbox = memory_file(mailbox_bytes_, true);
  core::UniqueFd no_doorbell = dial();
  send(no_doorbell, attach_packet(proof_).view(), {mailbox.get(), STDIN_FILENO});
  core::UniqueFd many = dial();
  const std::vector<int> fds(kMaxPacketFds, STDIN_FILENO);
  send(many, {text.data(), text.size()}, fds);
  expect_usable();
}

TEST_F(UnixSocketStranger, WithAWrongProofChangesNothing) {
  core::UniqueFd stranger = dial();
  const core::UniqueFd mailbox = memory_file(mailbox_bytes_, true);
  core::Digest wrong = proof_;
  wrong[31] ^= std::byte{1};
  send(stranger, attach_packet(wrong).view(), {mailbox.get(), doorbell_.get()});
  expect_usable();
}

TEST_F(UnixSocketStranger, CannotKeepPeersOutByAHundredAttemptsThatLeft) {
  const core::UniqueFd mailbox = memory_file(mailbox_bytes_, true);
  for (int i = 0; i < 100; ++i) {
    core::Digest wrong = proof_;
    wrong[0] ^= std::byte{1};
    wrong[1] = static_cast<std::byte>(i);
    core::UniqueFd stranger = dial();
    send(stranger, attach_packet(wrong).view(), {mailbox.get(), doorbell_.get()});
  }
  expect_usable();
}

TEST_F(UnixSocketStranger, IsRefusedWithTooFewDescriptors) {
  const core::UniqueFd mailbox = memory_file(mailbox_bytes_, true);
  expect_error(accept_with(attach_packet(proof_), {mailbox.get()}), StatusCode::kProtocolError,
               {"shm", "implausible"});
  expect_usable();
}

TEST_F(UnixSocketStranger, IsRefusedWithAnUnsealedMailbox) {
  const core::UniqueFd mailbox = memory_file(mailbox_bytes_, false);
  expect_error(accept_with(attach_packet(proof_), {mailbox.get(), doorbell_.get()}),
               StatusCode::kProtocolError, {"not sealed against shrinking"});
  expect_usable();
}

TEST_F(UnixSocketStranger, IsRefusedWithATooSmallMailbox) {
  const core::UniqueFd mailbox = memory_file(4096, true);
  expect_error(accept_with(attach_packet(proof_), {mailbox.get(), doorbell_.get()}),
               StatusCode::kProtocolError, {"4096 bytes"});
  expect_usable();
}

TEST_F(UnixSocketStranger, IsRefusedWithSomethingThatIsNoMemory) {
  const core::UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(accept_with(attach_packet(proof_), {null.get(), doorbell_.get()}).ok());
  expect_usable();
}

TEST_F(UnixSocketStranger, IsRefusedWithAnImplausibleGeometry) {
  constexpr std::uint32_t kHuge = std::numeric_limits<std::uint32_t>::max();
  const core::UniqueFd mailbox = memory_file(mailbox_bytes_, true);
  const std::vector<int> fds{mailbox.get(), doorbell_.get()};
  for (const auto& packet :
       {attach_packet(proof_, 2), attach_packet(proof_, 0), attach_packet(proof_, kHuge),
        attach_packet(proof_, 1, 0), attach_packet(proof_, 1, 4095),
        attach_packet(proof_, 1, kHuge), attach_packet(proof_, 1, 4096, 0),
        attach_packet(proof_, 1, 4096, kHuge)}) {
    expect_error(accept_with(packet, fds), StatusCode::kProtocolError, {"implausible"});
  }
  expect_usable();
}

TEST_F(UnixSocketStranger, IsRefusedWhenItCannotReadOurNonce) {
  const core::UniqueFd mailbox = memory_file(mailbox_bytes_, true);
  core::UniqueFd stranger = dial();
  send(stranger, attach_packet(proof_).view(), {mailbox.get(), doorbell_.get()});
  core::WireWriter confirm;  // with a nonce of its own invention
  confirm.u32(0x4d485346);
  confirm.u16(3);
  const std::string nonce(32, 'n');
  confirm.bytes({nonce.data(), nonce.size()});
  send(stranger, confirm.view());
  expect_error(fabric_->attach(request(false)).status(), StatusCode::kUnavailable,
               {"nonce", "share no memory", "crosses hosts"});
  expect_usable();
}

}  // namespace
}  // namespace farwrite::fault
