#include "device/control_connection.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/tcp_socket.h"
#include "plain_sockets.h"

namespace farwrite::device {
namespace {

constexpr std::chrono::seconds kConnectionHang(30);
core::Deadline connection_deadline() { return core::Deadline::after(kConnectionHang); }

bool soon_enough(const std::function<bool()>& holds) {
  const core::Deadline deadline = connection_deadline();
  while (!holds()) {
    if (deadline.expired()) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

class Connection : public ::testing::Test {
 protected:
  Connection() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    peer_ = core::UniqueFd(pair[0]);
    connection_.emplace(
        core::make_plain_stream(core::UniqueFd(pair[1])), *loop_,
        [this](ControlFrameType type, ByteView body) {
          {
            const std::lock_guard<std::mutex> lock(mutex_);
            frames_.emplace_back(type,
                                 std::string(reinterpret_cast<const char*>(body.data), body.size));
          }
          if (on_frame_) on_frame_();
        },
        [this](const Status& reason) {
          {
            const std::lock_guard<std::mutex> lock(mutex_);
            ends_.push_back(reason);
          }
        });
  }
  std::size_t frames() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return frames_.size();
  }
  std::size_t ends() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return ends_.size();
  }
  // Whatever the loop has to do is done when this returns.
  void let_the_loop_run() {
    for (int turn = 0; turn < 3; ++turn) {
      std::atomic<bool> ran{false};
      loop_->post([&] { ran.store(true); });
      EXPECT_TRUE(soon_enough([&] { return ran.load(); }));
    }
  }

  std::unique_ptr<core::EventLoop> loop_ = *core::EventLoop::start("test");
  core::UniqueFd peer_;
  std::mutex mutex_;
  std::vector<std::pair<ControlFrameType, std::string>> frames_;
  std::vector<Status> ends_;
  std::function<void()> on_frame_;
  std::optional<ControlConnection> connection_;
};

TEST_F(Connection, BringsFramesBothWays) {
  ASSERT_TRUE(connection_->start().ok());
  ASSERT_TRUE(
      send_frame(peer_.get(), ControlFrameType::kLookup, {"abc", 3}, connection_deadline(), "test")
          .ok());
  ASSERT_TRUE(
      send_frame(peer_.get(), ControlFrameType::kPing, {}, connection_deadline(), "test").ok());
  ASSERT_TRUE(soon_enough([&] { return frames() == 2; }));
  EXPECT_EQ(frames_[0], std::make_pair(ControlFrameType::kLookup, std::string("abc")));
  EXPECT_EQ(frames_[1].first, ControlFrameType::kPing);
  connection_->send(ControlFrameType::kReply, {"xy", 2});
  const Frame frame = receive_frame(peer_.get(), connection_deadline(), "test").value();
  EXPECT_EQ(frame.type, ControlFrameType::kReply);
  EXPECT_EQ(frame.body.size(), 2u);
  EXPECT_EQ(ends(), 0u);
}

TEST_F(Connection, QueuesWhatThePeerDoesNotTakeYet) {
  ASSERT_TRUE(connection_->start().ok());
  constexpr int kFrames = 60;  // more than the socket's buffer holds, less than is too much
  const std::string body(kMaxFrameBytes, 'q');
  EXPECT_TRUE(connection_->all_sent());
  for (int i = 0; i < kFrames; ++i)
    connection_->send(ControlFrameType::kReply, {body.data(), body.size()});
  EXPECT_FALSE(connection_->all_sent());
  for (int i = 0; i < kFrames; ++i) {
    const auto frame = receive_frame(peer_.get(), connection_deadline(), "test");
    ASSERT_TRUE(frame.ok()) << frame.status().to_string();
    ASSERT_EQ(frame.value().body.size(), body.size());
  }
  EXPECT_TRUE(soon_enough([&] { return connection_->all_sent(); }));
  EXPECT_EQ(ends(), 0u);
}

TEST_F(Connection, CutsOffAPeerThatNeverReads) {
  ASSERT_TRUE(connection_->start().ok());
  const std::string body(kMaxFrameBytes, 'q');
  for (int i = 0; i < 400; ++i)
    connection_->send(ControlFrameType::kReply, {body.data(), body.size()});
  EXPECT_TRUE(soon_enough([&] { return ends() == 1; }));
  EXPECT_EQ(ends_[0].code(), StatusCode::kUnavailable);
}

TEST_F(Connection, ReportsThePeersEndOnce) {
  ASSERT_TRUE(connection_->start().ok());
  peer_.reset();
  ASSERT_TRUE(soon_enough([&] { return ends() == 1; }));
  EXPECT_EQ(ends_[0].code(), StatusCode::kUnavailable);
  connection_->send(ControlFrameType::kPing, {});
  let_the_loop_run();
  EXPECT_EQ(ends(), 1u);
}

TEST_F(Connection, ReportsABrokenProtocolOnce) {
  ASSERT_TRUE(connection_->start().ok());
  const unsigned char junk[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  ASSERT_TRUE(
      core::send_all(peer_.get(), {junk, sizeof(junk)}, connection_deadline(), "test").ok());
  ASSERT_TRUE(soon_enough([&] { return ends() == 1; }));
  EXPECT_EQ(ends_[0].code(), StatusCode::kProtocolError);
  (void)core::send_all(peer_.get(), {junk, sizeof(junk)}, connection_deadline(), "test");
  let_the_loop_run();
  EXPECT_EQ(ends(), 1u);
  EXPECT_EQ(frames(), 0u);
}

TEST_F(Connection, IsQuietAfterClose) {
  ASSERT_TRUE(connection_->start().ok());
  connection_->close();
  connection_->close();
  (void)send_frame(peer_.get(), ControlFrameType::kPing, {}, connection_deadline(), "test");
  connection_->send(ControlFrameType::kPing, {});
  let_the_loop_run();
  EXPECT_EQ(frames(), 0u);
  EXPECT_EQ(ends(), 0u);
}

TEST_F(Connection, ClosedInsideACallbackDeliversNothingMore) {
  on_frame_ = [this] { connection_->close(); };
  std::vector<std::byte> bytes;
  for (int i = 0; i < 2; ++i) {
    const std::vector<std::byte> frame = encode_frame(ControlFrameType::kPing, {});
    bytes.insert(bytes.end(), frame.begin(), frame.end());
  }
  ASSERT_TRUE(
      core::send_all(peer_.get(), {bytes.data(), bytes.size()}, connection_deadline(), "test")
          .ok());
  ASSERT_TRUE(connection_->start().ok());
  ASSERT_TRUE(soon_enough([&] { return frames() >= 1; }));
  let_the_loop_run();
  EXPECT_EQ(frames(), 1u) << "a frame came after close()";
  EXPECT_EQ(ends(), 0u);
}

TEST_F(Connection, CloseWaitsForARunningCallback) {
  std::atomic<bool> entered{false}, left{false};
  on_frame_ = [&] {
    entered.store(true);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    left.store(true);
  };
  ASSERT_TRUE(connection_->start().ok());
  ASSERT_TRUE(
      send_frame(peer_.get(), ControlFrameType::kPing, {}, connection_deadline(), "test").ok());
  ASSERT_TRUE(soon_enough([&] { return entered.load(); }));
  connection_->close();
  EXPECT_TRUE(left.load());
}

TEST_F(Connection, StandsManyThreadsThatSend) {
  ASSERT_TRUE(connection_->start().ok());
  constexpr int kThreads = 4;
  constexpr int kEach = 300;
  std::vector<std::thread> senders;
  for (int i = 0; i < kThreads; ++i) {
    senders.emplace_back([&] {
      for (int j = 0; j < kEach; ++j) {
        const std::string body(static_cast<std::size_t>(j), 's');
        connection_->send(ControlFrameType::kReply, {body.data(), body.size()});
      }
    });
  }
  std::size_t bytes = 0;
  for (int i = 0; i < kThreads * kEach; ++i) {
    const auto frame = receive_frame(peer_.get(), connection_deadline(), "test");
    ASSERT_TRUE(frame.ok() && frame.value().type == ControlFrameType::kReply);
    bytes += frame.value().body.size();
  }
  for (std::thread& sender : senders) sender.join();
  EXPECT_EQ(bytes, std::size_t{kThreads} * kEach * (kEach - 1) / 2);
}

}  // namespace
}  // namespace farwrite::device
