#include "device/frame.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "core/tcp_socket.h"
#include "core/unique_fd.h"
#include "plain_sockets.h"
#include "unit/damage.h"

namespace farwrite::device {
namespace {

using Frames = std::vector<std::pair<ControlFrameType, std::string>>;

Frames taken;
void take(ControlFrameType type, ByteView body) {
  taken.emplace_back(type, std::string(reinterpret_cast<const char*>(body.data), body.size));
}

std::vector<std::byte> some_frames(Frames& expected) {
  std::vector<std::byte> bytes;
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{300}, kMaxFrameBytes}) {
    const std::string body(size, 'b');
    const auto frame = encode_frame(ControlFrameType::kOpen, {body.data(), body.size()});
    bytes.insert(bytes.end(), frame.begin(), frame.end());
    expected.emplace_back(ControlFrameType::kOpen, body);
  }
  return bytes;
}

TEST(FrameSplitter, CutsAStreamHoweverItArrives) {
  std::mt19937 random(3);
  for (const std::size_t piece : {std::size_t{1}, std::size_t{5}, std::size_t{0}}) {
    Frames expected;
    const std::vector<std::byte> bytes = some_frames(expected);
    FrameSplitter splitter;
    taken.clear();
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t count = std::min(piece == 0 ? random() % 4000 : piece, bytes.size() - at);
      ASSERT_TRUE(splitter.feed({bytes.data() + at, count}, take).ok());
      at += count;
    }
    EXPECT_EQ(taken, expected);
  }
}

TEST(FrameSplitter, RefusesAnOversizedFrameBeforeItsBody) {
  FrameSplitter splitter;
  const unsigned char header[] = {0x01, 0x00, 0x01, 0x00, 33, 0};  // 64 KiB and one byte
  taken.clear();
  const Status status = splitter.feed({header, sizeof(header)}, take);
  EXPECT_EQ(status.code(), StatusCode::kProtocolError);
  EXPECT_NE(status.message().find("65537 bytes"), std::string::npos) << status.message();
  EXPECT_TRUE(taken.empty());
}

class Sockets : public ::testing::Test {
 protected:
  Sockets() {
    int pair[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    left_ = core::UniqueFd(pair[0]);
    right_ = core::UniqueFd(pair[1]);
  }
  core::UniqueFd left_, right_;
  const core::Deadline soon_ = core::Deadline::after(std::chrono::milliseconds(50));
  const core::Deadline later_ = core::Deadline::after(std::chrono::seconds(30));
};

using FrameOnASocket = Sockets;

TEST_F(FrameOnASocket, Arrives) {
  ASSERT_TRUE(send_frame(left_.get(), ControlFrameType::kWelcome, {"hi", 2}, later_, "test").ok());
  const Frame frame = receive_frame(right_.get(), later_, "test").value();
  EXPECT_EQ(frame.type, ControlFrameType::kWelcome);
  EXPECT_EQ(frame.body, (std::vector<std::byte>{std::byte{'h'}, std::byte{'i'}}));
}

TEST_F(FrameOnASocket, ThatNeverComesEndsAtTheDeadline) {
  const Status status = receive_frame(right_.get(), soon_, "test").status();
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded);
  EXPECT_NE(status.message().find("test"), std::string::npos);
}

TEST_F(FrameOnASocket, ThatIsCutOffIsAnErrorAtEveryLength) {
  const auto frame = encode_frame(ControlFrameType::kHello, {"body", 4});
  for (std::size_t length = 0; length < frame.size(); ++length) {
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    core::UniqueFd sender(pair[0]);
    const core::UniqueFd receiver(pair[1]);
    ASSERT_TRUE(core::send_all(sender.get(), {frame.data(), length}, later_, "test").ok());
    sender.reset();
    EXPECT_EQ(receive_frame(receiver.get(), later_, "test").status().code(),
              StatusCode::kUnavailable);
  }
}

TEST_F(FrameOnASocket, ThatIsOversizedIsRefusedWithoutItsBody) {
  const unsigned char header[] = {0xff, 0xff, 0xff, 0xff, 1, 0};
  ASSERT_TRUE(core::send_all(left_.get(), {header, sizeof(header)}, later_, "test").ok());
  EXPECT_EQ(receive_frame(right_.get(), later_, "test").status().code(),
            StatusCode::kProtocolError);
}

TEST_F(FrameOnASocket, ToNobodyIsAnErrorAndNoSignal) {
  right_.reset();
  EXPECT_EQ(send_frame(left_.get(), ControlFrameType::kPing, {}, later_, "test").code(),
            StatusCode::kUnavailable);
}

TEST_F(FrameOnASocket, ToAPeerThatDoesNotReadEndsAtTheDeadline) {
  const std::string body(kMaxFrameBytes, 'x');
  Status status;
  for (int i = 0; i < 1000 && status.ok(); ++i) {
    status =
        send_frame(left_.get(), ControlFrameType::kOpen, {body.data(), body.size()}, soon_, "test");
  }
  EXPECT_EQ(status.code(), StatusCode::kDeadlineExceeded) << status.to_string();
}

}  // namespace
}  // namespace farwrite::device
