#include "core/tcp_socket.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>

namespace farwrite::device {
namespace {

core::Deadline socket_deadline() { return core::Deadline::after(std::chrono::seconds(30)); }

struct SocketPair {
  core::UniqueFd connecting, accepted;
};

SocketPair connect_to(const core::Listener& listener) {
  SocketPair connection;
  connection.connecting = *core::connect_tcp(listener.endpoint, socket_deadline());
  connection.accepted = core::UniqueFd(::accept4(listener.socket.get(), nullptr, nullptr, 0));
  return connection;
}

TEST(TcpSocket, ListensOnAFreePortAndTellsWhich) {
  auto listener = core::listen_tcp({"127.0.0.1", 0});
  ASSERT_TRUE(listener.ok()) << listener.status().to_string();
  EXPECT_NE(listener->endpoint.port, 0);
  EXPECT_EQ(listener->endpoint.host, "127.0.0.1");
  EXPECT_TRUE(connect_to(*listener).accepted.valid());
}

TEST(TcpSocket, SaysThatAPortIsTaken) {
  auto listener = core::listen_tcp({"127.0.0.1", 0});
  const Status status = core::listen_tcp(listener->endpoint).status();
  EXPECT_EQ(status.code(), StatusCode::kAlreadyExists);
  EXPECT_NE(status.message().find(listener->endpoint.to_string()), std::string::npos);
  EXPECT_NE(status.message().find("another port"), std::string::npos);
}

TEST(TcpSocket, TakesThePortsOfARangeUntilAllAreTaken) {
  // Two ports that were free a moment ago; another program may take one meanwhile.
  PortRange range;
  for (int turn = 0; turn < 100 && range == PortRange(); ++turn) {
    auto probe = core::listen_tcp({"127.0.0.1", 0});
    const auto port = probe->endpoint.port;
    const auto next = static_cast<std::uint16_t>(port - 1);
    if (core::listen_tcp({"127.0.0.1", next}).ok()) range = {next, port};
  }
  auto one = core::listen_tcp({"127.0.0.1", 0}, range);
  auto other = core::listen_tcp({"127.0.0.1", 0}, range);
  ASSERT_TRUE(one.ok() && other.ok());
  EXPECT_EQ(one->endpoint.port, range.first);
  EXPECT_EQ(other->endpoint.port, range.last);
  const Status full = core::listen_tcp({"127.0.0.1", 0}, range).status();
  EXPECT_EQ(full.code(), StatusCode::kAlreadyExists);
  EXPECT_NE(full.message().find(std::to_string(range.first) + "-" + std::to_string(range.last)),
            std::string::npos)
      << full.message();
  EXPECT_NE(full.message().find("make port_range larger"), std::string::npos);
}

TEST(TcpSocket, LeavesAPortThatSomebodyHoldsAndDoesNotListenOnYet) {
  // As a launcher, or a server between bind(2) and listen(2).
  const core::UniqueFd holder(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  ASSERT_EQ(::setsockopt(holder.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  ASSERT_EQ(::bind(holder.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  socklen_t length = sizeof(address);
  ::getsockname(holder.get(), reinterpret_cast<sockaddr*>(&address), &length);
  const std::uint16_t held = ntohs(address.sin_port);
  EXPECT_EQ(core::listen_tcp({"127.0.0.1", 0}, {held, held}).status().code(),
            StatusCode::kAlreadyExists);
}

TEST(TcpSocket, RefusesARangeWithoutAPort) {
  for (const PortRange& range : {PortRange{9, 8}, PortRange{0, 8}}) {
    EXPECT_EQ(core::listen_tcp({"127.0.0.1", 0}, range).status().code(),
              StatusCode::kInvalidArgument);
  }
}

TEST(TcpSocket, RefusesAHostThatIsNotHere) {
  EXPECT_EQ(core::listen_tcp({"no such host", 0}).status().code(), StatusCode::kInvalidArgument);
  const Status elsewhere = core::listen_tcp({"192.0.2.1", 0}).status();
  EXPECT_FALSE(elsewhere.ok());
  EXPECT_NE(elsewhere.message().find("this host"), std::string::npos) << elsewhere.message();
}

TEST(TcpSocket, FindsNoHostThatHasNoName) {
  const Status status = core::connect_tcp({"nowhere.invalid", 7}, socket_deadline()).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound);
  EXPECT_NE(status.message().find("nowhere.invalid:7"), std::string::npos) << status.message();
  EXPECT_NE(status.message().find("does not resolve"), std::string::npos) << status.message();
  for (const char* const never : {"10.0.0.300", "my host", "fe80::nowhere"}) {
    EXPECT_EQ(core::connect_tcp({never, 7}, socket_deadline()).status().code(),
              StatusCode::kInvalidArgument)
        << never << " will never be a host";
  }
}

TEST(TcpSocket, SaysThatNobodyListens) {
  Endpoint gone = core::listen_tcp({"127.0.0.1", 0}).value().endpoint;
  const Status status = core::connect_tcp(gone, socket_deadline()).status();
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find(gone.to_string()), std::string::npos);
  EXPECT_NE(status.message().find("start the peer first"), std::string::npos);
}

TEST(TcpSocket, MovesMoreThanItsBuffersHold) {
  auto listener = core::listen_tcp({"127.0.0.1", 0});
  SocketPair connection = connect_to(*listener);
  std::string sent(8 << 20, '\0');
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<char>(i * 31 >> 3);
  std::thread sender([&] {
    EXPECT_TRUE(core::send_all(connection.connecting.get(), {sent.data(), sent.size()},
                               socket_deadline(), "t")
                    .ok());
  });
  std::string received(sent.size(), '\0');
  EXPECT_TRUE(core::receive_all(connection.accepted.get(), {received.data(), received.size()},
                                socket_deadline(), "t")
                  .ok());
  sender.join();
  EXPECT_EQ(received, sent);
}

// A child forked by the owner of a connection and of a listener. It lives until it is destroyed.
class ForkedChild {
 public:
  ForkedChild() : pid_(::fork()) {
    while (pid_ == 0) ::pause();
  }
  ~ForkedChild() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  ForkedChild(const ForkedChild&) = delete;
  ForkedChild& operator=(const ForkedChild&) = delete;

 private:
  pid_t pid_;
};

TEST(TcpSocket, IsNotHeldOpenByAForkedChild) {
  auto listener = core::listen_tcp({"127.0.0.1", 0});
  SocketPair connection = connect_to(*listener);
  const ForkedChild child;
  connection.connecting.reset();
  char byte = 0;
  EXPECT_EQ(core::receive_all(connection.accepted.get(), {&byte, 1}, socket_deadline(), "t").code(),
            StatusCode::kUnavailable);
  const Endpoint endpoint = listener->endpoint;
  listener->socket.reset();
  EXPECT_TRUE(core::listen_tcp(endpoint).ok()) << "the child holds the port";
}

TEST(TcpSocket, IsNotHeldOpenByAChildWithoutAFreeDescriptor) {
  auto listener = core::listen_tcp({"127.0.0.1", 0});
  SocketPair connection = connect_to(*listener);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  const core::UniqueFd lowest(::dup(0));  // so that the number is free again below
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(lowest.get());
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  const ForkedChild child;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  connection.connecting.reset();
  char byte = 0;
  EXPECT_EQ(core::receive_all(connection.accepted.get(), {&byte, 1}, socket_deadline(), "t").code(),
            StatusCode::kUnavailable);
}

TEST(TcpSocket, OfANumberThatIsAnotherFileNowIsLeftAlone) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe(ends), 0);
  const core::UniqueFd read_end(ends[0]), write_end(ends[1]);
  const int number = core::listen_tcp({"127.0.0.1", 0})->socket.get();
  const core::UniqueFd again(::dup2(write_end.get(), number));
  const pid_t child = ::fork();
  if (child == 0) ::_exit(::write(number, "x", 1) == 1 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  char byte = 0;
  EXPECT_EQ(::read(read_end.get(), &byte, 1), 1);
  EXPECT_EQ(byte, 'x') << "the child wrote elsewhere";
}

TEST(TcpSocket, ReportsThePeersEnd) {
  auto listener = core::listen_tcp({"127.0.0.1", 0});
  SocketPair connection = connect_to(*listener);
  EXPECT_FALSE(core::has_input(connection.connecting.get()));
  connection.accepted.reset();
  char byte = 0;
  const Status status =
      core::receive_all(connection.connecting.get(), {&byte, 1}, socket_deadline(), "read a reply");
  EXPECT_EQ(status.code(), StatusCode::kUnavailable);
  EXPECT_NE(status.message().find("read a reply"), std::string::npos);
  EXPECT_TRUE(core::has_input(connection.connecting.get()));
}

}  // namespace
}  // namespace farwrite::device
