// The code that connects to a device, or answers for one, may be anything: junk, half a peer, a
// stranger.
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <functional>
#include <future>
#include <thread>
#include <vector>

#include "core/sha256.h"
#include "core/status_wire.h"
#include "core/tcp_socket.h"
#include "device/frame.h"
#include "device/hello.h"
#include "fault/fixture.h"
#include "plain_sockets.h"

namespace farwrite::fault {
namespace {

using device::ControlFrameType;

constexpr std::chrono::seconds kHandshake(2);  // good peers must keep to it, too

ByteView view(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

core::Deadline soon() { return core::Deadline::after(kPatience); }

device::Hello some_hello() {
  device::LocalIdentity self;
  self.uuid[0] = 9;
  self.epoch = 9;
  self.endpoint.port = 9;
  device::Hello hello = device::Hello::of(self);
  hello.fabrics = {FabricKind::kShm};
  return hello;
}

class Handshake : public FaultTest {
 protected:
  static DeviceOptions options() {
    DeviceOptions options = quick_options();
    options.handshake_timeout = kHandshake;
    options.token = Token::none();  // peers here write their messages by hand
    return options;
  }
  core::UniqueFd dial() { return *core::connect_tcp(device_.endpoint(), soon()); }
  // True once the device has ended the connection.
  static bool sees_the_end(const core::UniqueFd& socket) {
    const core::Deadline deadline = soon();
    while (!deadline.expired()) {
      char bytes[512];
      const ssize_t count = ::recv(socket.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
      if (count == 0 || (count < 0 && errno == ECONNRESET)) return true;
      if (count < 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return false;
  }
  // The device takes a good peer, and the two can talk.
  void expect_usable() {
    Device good = open_device(options());
    auto from = good.connect(device_.endpoint(), kPatience);
    ASSERT_TRUE(from.ok()) << from.status().to_string();
    auto to = device_.accept(kPatience);
    ASSERT_TRUE(to.ok()) << to.status().to_string();
    EXPECT_TRUE(from->notify(4).wait(kPatience).ok());
    EXPECT_EQ(to->wait_notification(kPatience).value().tag, 4u);
    EXPECT_TRUE(good.close().ok());
  }
  bool refuses(std::uint64_t count) {
    return eventually([&] { return device_.stats().handshakes_refused == count; });
  }
  void TearDown() override {
    EXPECT_TRUE(device_.close().ok());
    device_ = Device();
    FaultTest::TearDown();
  }

  Device device_ = open_device(options());
};

TEST_F(Handshake, RefusesGarbageAndHangsUp) {
  core::UniqueFd junk = dial();
  const std::string garbage(4096, 'x');
  ASSERT_TRUE(core::send_all(junk.get(), {garbage.data(), garbage.size()}, soon(), "test").ok());
  EXPECT_TRUE(refuses(1));
  EXPECT_TRUE(sees_the_end(junk)) << "the device keeps a connection that it refused";
  expect_usable();
}

TEST_F(Handshake, TellsAStrangerThatItIsNoHello) {
  core::UniqueFd junk = dial();
  const std::string body(100, 'x');
  ASSERT_TRUE(device::send_frame(junk.get(), ControlFrameType::kHello, {body.data(), body.size()},
                                 soon(), "test")
                  .ok());
  auto answer = device::receive_frame(junk.get(), soon(), "test");
  ASSERT_TRUE(answer.ok()) << answer.status().to_string();
  ASSERT_EQ(answer->type, ControlFrameType::kRefuse);
  Status refusal;
  ASSERT_TRUE(core::status_from_bytes(view(answer->body), refusal).ok());
  expect_error(refusal, StatusCode::kProtocolError, {"does not use Farwrite's protocol", "port"});
  EXPECT_TRUE(refuses(1));
  expect_usable();
}

TEST_F(Handshake, RefusesAHelloThatStopsHalfWay) {
  core::UniqueFd junk = dial();
  std::vector<std::byte> frame =
      device::encode_frame(ControlFrameType::kHello, view(some_hello().to_bytes()));
  frame.resize(frame.size() / 2);
  ASSERT_TRUE(core::send_all(junk.get(), view(frame), soon(), "test").ok());
  EXPECT_TRUE(refuses(1));
  EXPECT_TRUE(sees_the_end(junk)) << "the device keeps a connection that it refused";
  expect_usable();
}

TEST_F(Handshake, RefusesOversizedMessages) {
  core::UniqueFd junk = dial();
  const unsigned char header[] = {0xff, 0xff, 0xff, 0xff, 1, 0};
  ASSERT_TRUE(core::send_all(junk.get(), {header, sizeof(header)}, soon(), "test").ok());
  EXPECT_TRUE(refuses(1));
  EXPECT_TRUE(sees_the_end(junk)) << "the device keeps a connection that it refused";
  expect_usable();
}

TEST_F(Handshake, RefusesAPeerThatLeavesAtAnyStep) {
  for (std::uint64_t step = 0; step < 4; ++step) {
    core::UniqueFd peer = dial();
    const device::Hello hello = some_hello();
    if (step >= 1) {
      ASSERT_TRUE(device::send_frame(peer.get(), ControlFrameType::kHello, view(hello.to_bytes()),
                                     soon(), "test")
                      .ok());
      auto frame = device::receive_frame(peer.get(), soon(), "test");
      ASSERT_TRUE(frame.ok() && frame->type == ControlFrameType::kHelloReply);
      if (step >= 2) {
        const auto reply = device::HelloReply::from_bytes(view(frame->body)).value();
        const core::Digest proof = device::Transcript(hello, reply.hello, "").connecting_proof;
        ASSERT_TRUE(device::send_frame(peer.get(), ControlFrameType::kProof,
                                       {proof.data(), proof.size()}, soon(), "test")
                        .ok());
        auto attempt = device::receive_frame(peer.get(), soon(), "test");
        ASSERT_TRUE(attempt.ok() && attempt->type == ControlFrameType::kTryFabric);
      }
      if (step >= 3) {
        const Status failed(StatusCode::kUnavailable, "no shared memory today");
        ASSERT_TRUE(device::send_frame(peer.get(), ControlFrameType::kFabricResult,
                                       view(core::status_to_bytes(failed)), soon(), "test")
                        .ok());
      }
    }
    peer.reset();
    EXPECT_TRUE(refuses(step + 1)) << "step " << step;
  }
  expect_usable();
}

TEST_F(Handshake, TellsAPeerWhyNoFabricWorked) {
  core::UniqueFd peer = dial();
  const device::Hello hello = some_hello();
  ASSERT_TRUE(device::send_frame(peer.get(), ControlFrameType::kHello, view(hello.to_bytes()),
                                 soon(), "test")
                  .ok());
  const auto frame = device::receive_frame(peer.get(), soon(), "test").value();
  const auto reply = device::HelloReply::from_bytes(view(frame.body)).value();
  const core::Digest proof = device::Transcript(hello, reply.hello, "").connecting_proof;
  ASSERT_TRUE(device::send_frame(peer.get(), ControlFrameType::kProof, {proof.data(), proof.size()},
                                 soon(), "test")
                  .ok());
  ASSERT_EQ(device::receive_frame(peer.get(), soon(), "test").value().type,
            ControlFrameType::kTryFabric);
  const Status failed(StatusCode::kUnavailable, "no shared memory today");
  ASSERT_TRUE(device::send_frame(peer.get(), ControlFrameType::kFabricResult,
                                 view(core::status_to_bytes(failed)), soon(), "test")
                  .ok());
  ASSERT_EQ(device::receive_frame(peer.get(), soon(), "test").value().type,
            ControlFrameType::kFabricResult);
  const auto last = device::receive_frame(peer.get(), soon(), "test").value();
  ASSERT_EQ(last.type, ControlFrameType::kRefuse);
  Status refusal;
  ASSERT_TRUE(core::status_from_bytes(view(last.body), refusal).ok());
  expect_error(refusal, StatusCode::kUnavailable, {"no shared memory today", "shm", "fabric"});
}

TEST_F(Handshake, ServesAGoodPeerAmongAHundredSilentConnections) {
  std::vector<core::UniqueFd> junk;
  for (int i = 0; i < 100; ++i) junk.push_back(dial());
  expect_usable();
}

TEST_F(Handshake, ServesAGoodPeerAfterAHundredSilentConnectionsTimedOut) {
  std::vector<core::UniqueFd> junk;
  for (int i = 0; i < 100; ++i) junk.push_back(dial());
  EXPECT_TRUE(refuses(100));
  expect_usable();
}

class Tokens : public Handshake {
 protected:
  // What connecting comes to, and that nothing of it reached the accepting side.
  Status meet(const Token& accepting, const Token& connecting) {
    DeviceOptions with = options();
    with.token = accepting;
    Device server = open_device(with);
    with.token = connecting;
    Device client = open_device(with);
    auto channel = client.connect(server.endpoint(), kPatience);
    if (!channel.ok()) {
      EXPECT_TRUE(eventually([&] { return server.stats().handshakes_refused == 1; }));
      EXPECT_EQ(server.stats().channels_opened, 0u);
      EXPECT_EQ(client.stats().channels_opened, 0u);
      EXPECT_NE(channel.status().message().find(server.endpoint().to_string()), std::string::npos)
          << channel.status().message();
    }
    EXPECT_EQ(client.close().code(), StatusCode::kOk);
    EXPECT_EQ(server.close().code(), StatusCode::kOk);
    return channel.status();
  }
};

TEST_F(Tokens, LetsPeersMeetWhenItIsTheSame) { EXPECT_TRUE(meet("secret", "secret").ok()); }

TEST_F(Tokens, IsRefusedWhenItDiffers) {
  expect_error(meet("secret", "guess"), StatusCode::kUnauthenticated, {"tokens differ", "same"});
}

TEST_F(Tokens, IsRefusedWhenOnlyTheAcceptingSideHasOne) {
  expect_error(meet("secret", Token::none()), StatusCode::kUnauthenticated,
               {"token", "none", "same"});
}

TEST_F(Tokens, IsRefusedWhenOnlyTheConnectingSideHasOne) {
  expect_error(meet(Token::none(), "secret"), StatusCode::kUnauthenticated,
               {"token", "none", "same"});
}

// Something listens where a peer is expected, takes one connection, reads a little, and `answer`s.
class Impostor {
 public:
  explicit Impostor(std::function<void(int socket)> answer)
      : listener_(*core::listen_tcp({"127.0.0.1", 0})), thread_([this, answer] {
          while (!stopping_.load()) {
            core::UniqueFd socket(::accept(listener_.socket.get(), nullptr, nullptr));
            if (socket.valid()) {
              answer(socket.get());
            } else {
              std::this_thread::sleep_for(std::chrono::milliseconds(2));
            }
          }
        }) {}
  ~Impostor() {
    stopping_.store(true);
    thread_.join();
  }
  const Endpoint& endpoint() const { return listener_.endpoint; }

 private:
  core::Listener listener_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

class WrongListener : public Handshake {
 protected:
  void expect_refused(const Impostor& impostor, StatusCode code, std::set<std::string> words) {
    words.insert(impostor.endpoint().to_string());
    const auto channel = device_.connect(impostor.endpoint(), 2 * kHandshake);
    expect_error(channel.status(), code, words);
  }
};

TEST_F(WrongListener, ThatHangsUpIsNamed) {
  Impostor impostor([](int socket) { (void)device::receive_frame(socket, soon(), "test"); });
  expect_refused(impostor, StatusCode::kUnavailable,
                 {"connect", "closed the connection", "another program"});
}

TEST_F(WrongListener, ThatTalksAnotherProtocolIsNamed) {
  Impostor impostor([](int socket) {
    (void)device::receive_frame(socket, soon(), "test");
    const std::string text = "HTTP/1.1 400 Bad Request\r\n\r\n";
    (void)core::send_all(socket, {text.data(), text.size()}, soon(), "test");
    (void)device::receive_frame(socket, core::Deadline::after(kHandshake), "test");
  });
  expect_refused(impostor, StatusCode::kProtocolError, {"connect", "Farwrite device"});
}

TEST_F(WrongListener, ThatSaysNothingIsNamedAfterTheHandshakeTimeout) {
  Impostor impostor([](int socket) {
    (void)device::receive_frame(socket, soon(), "test");
    (void)device::receive_frame(socket, core::Deadline::after(4 * kHandshake), "test");
  });
  expect_refused(impostor, StatusCode::kDeadlineExceeded,
                 {"connect", "did not answer", "another program"});
}

// What ends a connect() whose own device closes.
class Unanswered : public Handshake {
 protected:
  void expect_that_close_ends_a_connect(const Endpoint& peer) {
    auto connecting =
        std::async(std::launch::async, [&] { return device_.connect(peer, kForever).status(); });
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    EXPECT_TRUE(device_.close(kPatience).ok());
    expect_error(connecting.get(), StatusCode::kFailedPrecondition,
                 {"connect", "the device is closed"});
  }
};

// The kernel takes connections, as it does for a stopped process.
TEST_F(Unanswered, ConnectEndsWithItsDeviceInTheHandshake) {
  const core::Listener silent = *core::listen_tcp({"127.0.0.1", 0});
  expect_that_close_ends_a_connect(silent.endpoint);
}

TEST_F(Unanswered, ConnectEndsWithItsDeviceWhileTheListenerIsCrowded) {
  const core::Listener silent = *core::listen_tcp({"127.0.0.1", 0});
  ASSERT_EQ(::listen(silent.socket.get(), 0), 0);
  std::vector<core::UniqueFd> crowd;
  while (true) {
    auto socket =
        core::connect_tcp(silent.endpoint, core::Deadline::after(std::chrono::milliseconds(100)));
    if (!socket.ok()) break;
    crowd.push_back(*std::move(socket));
  }
  expect_that_close_ends_a_connect(silent.endpoint);
}

TEST_F(WrongListener, ThatIsNobodyIsNamed) {
  const auto channel = device_.connect({"127.0.0.1", 1}, std::chrono::seconds(1));
  expect_error(channel.status(), StatusCode::kUnavailable,
               {"connect to 127.0.0.1:1", "the connection failed", "start the peer first"});
}

}  // namespace
}  // namespace farwrite::fault
