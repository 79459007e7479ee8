// Packets with descriptors over unix sockets: what arrives, what is refused, what ends a wait.
#include "fabric/shm/packet_socket.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "descriptors_of.h"

namespace farwrite::fabric::shm {
namespace {

constexpr std::string_view kOperation = "test";
constexpr int kPacketHangMs = 30'000;

const core::Deadline kAtOnce = core::Deadline::after({});

ByteView view(std::string_view text) { return {text.data(), text.size()}; }

std::string text_of(const Packet& packet) {
  return {reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size()};
}

core::UniqueFd new_eventfd() { return core::UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

class PacketSocket : public testing::Test {
 protected:
  void SetUp() override {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    near_ = core::UniqueFd(pair[0]);
    far_ = core::UniqueFd(pair[1]);
  }

  Status send(std::string_view text, const std::vector<int>& fds = {}) {
    return send_packet(near_.get(), view(text), fds, core::Deadline::never(), kOperation);
  }
  Result<Packet> receive(core::Deadline deadline = kAtOnce) {
    return receive_packet(far_.get(), deadline, kOperation);
  }
  // Past our own sender, which would not send such a thing.
  void send_raw(std::size_t bytes, std::size_t descriptors) {
    std::vector<std::byte> content(bytes, std::byte{1});
    iovec piece{content.data(), content.size()};
    std::vector<char> control(CMSG_SPACE(descriptors * sizeof(int)));
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (descriptors > 0) {
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      cmsghdr* part = CMSG_FIRSTHDR(&message);
      part->cmsg_level = SOL_SOCKET;
      part->cmsg_type = SCM_RIGHTS;
      part->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
      const std::vector<int> fds(descriptors, near_.get());
      std::memcpy(CMSG_DATA(part), fds.data(), descriptors * sizeof(int));
    }
    ASSERT_EQ(::sendmsg(near_.get(), &message, 0), static_cast<ssize_t>(bytes));
  }

  core::UniqueFd near_, far_;
};

TEST_F(PacketSocket, KeepsPacketsApart) {
  ASSERT_TRUE(send("one").ok());
  ASSERT_TRUE(send("three and four").ok());
  EXPECT_EQ(text_of(receive().value()), "one");
  EXPECT_EQ(text_of(receive().value()), "three and four");
}

TEST_F(PacketSocket, PassesDescriptorsThatReferToTheSameFile) {
  const core::UniqueFd first = new_eventfd();
  const core::UniqueFd second = new_eventfd();
  ASSERT_TRUE(send("two", {first.get(), second.get()}).ok());
  const Packet packet = receive().value();
  ASSERT_EQ(packet.fds.size(), 2U);
  const std::uint64_t seven = 7;
  ASSERT_EQ(::write(second.get(), &seven, sizeof(seven)), 8);
  std::uint64_t rings = 0;
  EXPECT_EQ(::read(packet.fds[0].get(), &rings, sizeof(rings)), -1) << "nobody rang the first";
  EXPECT_EQ(::read(packet.fds[1].get(), &rings, sizeof(rings)), 8);
  EXPECT_EQ(rings, 7U);
}

TEST_F(PacketSocket, KeepsPassedDescriptorsFromExecutedPrograms) {
  const core::UniqueFd passed = new_eventfd();
  ASSERT_TRUE(send("one", {passed.get()}).ok());
  const Packet packet = receive().value();
  ASSERT_EQ(packet.fds.size(), 1U);
  EXPECT_NE(::fcntl(packet.fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST_F(PacketSocket, PassesAsManyDescriptorsAsTheLargestLinkNeeds) {
  const core::UniqueFd passed = new_eventfd();
  ASSERT_TRUE(send("many", std::vector<int>(kMaxPacketFds, passed.get())).ok());
  EXPECT_EQ(receive().value().fds.size(), kMaxPacketFds);
}

TEST_F(PacketSocket, ClosesTheDescriptorsOfAPacketNobodyWants) {
  const int passed = near_.get();
  ASSERT_TRUE(send("some", {passed, passed, passed}).ok());
  {
    const Packet packet = receive().value();
    EXPECT_EQ(descriptors_of(passed), 4U);
  }
  EXPECT_EQ(descriptors_of(passed), 1U);
}

TEST_F(PacketSocket, RefusesAPacketThatIsTooLong) {
  ASSERT_NO_FATAL_FAILURE(send_raw(kMaxPacketBytes + 1, 0));
  EXPECT_EQ(receive().status().code(), StatusCode::kProtocolError);
}

TEST_F(PacketSocket, TakesThePacketOfTheLargestSize) {
  ASSERT_NO_FATAL_FAILURE(send_raw(kMaxPacketBytes, 0));
  EXPECT_EQ(receive().value().bytes.size(), kMaxPacketBytes);
}

TEST_F(PacketSocket, RefusesAFloodOfDescriptorsAndKeepsNone) {
  ASSERT_NO_FATAL_FAILURE(send_raw(1, kMaxPacketFds + 20));
  EXPECT_EQ(receive().status().code(), StatusCode::kProtocolError);
  EXPECT_EQ(descriptors_of(near_.get()), 1U);
}

TEST_F(PacketSocket, StopsReceivingAtTheDeadline) {
  EXPECT_EQ(receive().status().code(), StatusCode::kDeadlineExceeded);
}

TEST_F(PacketSocket, StopsSendingAtTheDeadline) {
  const std::string large(kMaxPacketBytes, 'x');
  Status sent;
  for (int i = 0; i < 100'000 && sent.ok(); ++i) {
    sent = send_packet(near_.get(), view(large), {}, kAtOnce, kOperation);
  }
  EXPECT_EQ(sent.code(), StatusCode::kDeadlineExceeded) << sent.to_string();
}

TEST_F(PacketSocket, DeliversWhatWasSentBeforeThePeerClosed) {
  ASSERT_TRUE(send("last words").ok());
  near_.reset();
  EXPECT_EQ(text_of(receive().value()), "last words");
  EXPECT_EQ(receive(core::Deadline::never()).status().code(), StatusCode::kUnavailable);
}

TEST_F(PacketSocket, ReportsAClosedPeerInsteadOfRaisingASignal) {
  far_.reset();
  EXPECT_EQ(send("anybody?").code(), StatusCode::kUnavailable);
}

TEST(AbstractSocket, CannotBeReachedWhenNobodyListens) {
  const auto socket =
      connect_abstract("farwrite-test-nobody-listens-here", core::Deadline::never());
  EXPECT_EQ(socket.status().code(), StatusCode::kUnavailable);
}

TEST(AbstractSocket, TellsWhoConnected) {
  const std::string name = "farwrite-test-" + std::to_string(::getpid());
  const core::UniqueFd listener = listen_abstract(name).value();
  const core::UniqueFd near =
      connect_abstract(name, core::Deadline::after(std::chrono::seconds(5))).value();
  const core::UniqueFd far(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  ASSERT_TRUE(far.valid());
  EXPECT_TRUE(check_same_user(far.get()).ok());
  EXPECT_TRUE(check_same_user(near.get()).ok());
  EXPECT_EQ(peer_pid(far.get()), ::getpid());
  EXPECT_EQ(listen_abstract(name).status().code(), StatusCode::kUnavailable) << "the name is taken";
}

TEST(AbstractSocket, GivesADescriptorThatTellsThePeersDeath) {
  const std::string name = "farwrite-test-death-" + std::to_string(::getpid());
  const core::UniqueFd listener = listen_abstract(name).value();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const auto socket = connect_abstract(name, core::Deadline::after(std::chrono::seconds(5)));
    while (socket.ok()) ::pause();
    ::_exit(1);
  }
  pollfd arrival{listener.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&arrival, 1, kPacketHangMs), 1);
  const core::UniqueFd far(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  EXPECT_EQ(peer_pid(far.get()), child);
  const core::UniqueFd death = peer_pidfd(far.get()).value();
  ASSERT_TRUE(death.valid());
  pollfd entry{death.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0) << "it is alive";
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  EXPECT_EQ(::poll(&entry, 1, kPacketHangMs), 1);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace farwrite::fabric::shm
