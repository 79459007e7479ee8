// What two gRPC ends tell each other comes back as it was sent, and nothing else is taken.
#include <string>

#include "gmock/gmock.h"
#include "grpc/http2_watcher.h"
#include "grpc/upgrade_frame.h"

namespace farwrite::grpc {
namespace {

UpgradeFrame full_frame() {
  UpgradeFrame frame;
  frame.kind = UpgradeKind::kAnswer;
  frame.client_nonce.fill(1);
  frame.server_nonce.fill(2);
  frame.local = "127.0.0.1 50051";
  frame.remote = "::1 40000";
  frame.host = "5f0c";
  frame.device.fill(3);
  frame.endpoint = "127.0.0.1:7777";
  frame.stream = 0x0123456789abcdef;
  return frame;
}

std::string payload_of(const UpgradeFrame& frame) { return frame.encode().substr(9); }

Result<UpgradeFrame> decode(const std::string& payload) {
  return UpgradeFrame::decode({reinterpret_cast<const std::byte*>(payload.data()), payload.size()});
}

TEST(UpgradeFrame, ComesBackAsItWasSent) {
  const UpgradeFrame sent = full_frame();
  const auto came = decode(payload_of(sent));
  ASSERT_TRUE(came.ok()) << came.status().to_string();
  EXPECT_EQ(came.value().kind, sent.kind);
  EXPECT_EQ(came.value().client_nonce, sent.client_nonce);
  EXPECT_EQ(came.value().server_nonce, sent.server_nonce);
  EXPECT_EQ(came.value().local, sent.local);
  EXPECT_EQ(came.value().remote, sent.remote);
  EXPECT_EQ(came.value().host, sent.host);
  EXPECT_EQ(came.value().device, sent.device);
  EXPECT_EQ(came.value().endpoint, sent.endpoint);
  EXPECT_EQ(came.value().stream, sent.stream);
}

TEST(UpgradeFrame, IsAnHttp2FrameThatPeersIgnore) {
  const std::string frame = full_frame().encode();
  EXPECT_EQ(static_cast<std::uint8_t>(frame[3]), kUpgradeFrameType);
  EXPECT_EQ(frame.substr(4, 5), std::string(5, '\0')) << "no flags, stream 0";
  EXPECT_LE(frame.size() - kFrameHeadBytes, kMaxUpgradeBytes);
}

TEST(UpgradeFrame, ATruncatedOneIsRefused) {
  const std::string payload = payload_of(full_frame());
  for (std::size_t size = 0; size < payload.size(); ++size) {
    EXPECT_EQ(decode(payload.substr(0, size)).status().code(), StatusCode::kProtocolError) << size;
  }
  EXPECT_EQ(decode(payload + "x").status().code(), StatusCode::kProtocolError);
}

TEST(UpgradeFrame, AnotherVersionAndAnotherOwnersFrameAreRefused) {
  std::string payload = payload_of(full_frame());
  payload[8] = 2;
  EXPECT_EQ(decode(payload).status().code(), StatusCode::kVersionMismatch);
  payload[8] = 1;
  payload[9] = 9;
  EXPECT_EQ(decode(payload).status().code(), StatusCode::kProtocolError);
  payload[0] = 'F';
  EXPECT_EQ(decode(payload).status().code(), StatusCode::kProtocolError);
}

}  // namespace
}  // namespace farwrite::grpc
