// Which heads the ends of rpc-over-fabric take from each other.
#include <gmock/gmock.h>

#include "experiments/tensorflow/rpc_frame.h"

namespace farwrite::experiments {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::string_view kPeer = "ps (127.0.0.1:7000)";

RpcHead head(RpcKind kind, std::uint64_t id, std::uint64_t bytes, std::int32_t status = 0) {
  RpcHead made;
  made.kind = kind;
  made.id = id;
  made.bytes = bytes;
  made.status = status;
  return made;
}

void expect_refusal(const Status& status, const std::string& cause) {
  EXPECT_EQ(status.code(), StatusCode::kProtocolError);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("ps (127.0.0.1:7000)"), HasSubstr(cause),
                                      HasSubstr("; run the same release")));
}

TEST(RpcHead, OfAClientIsARequestOrItsCancellation) {
  const auto check = [](const RpcHead& sent) { return sent.check_from_client(kPeer); };
  EXPECT_TRUE(check(head(RpcKind::kRequest, 1, 1)).ok());
  EXPECT_TRUE(check(head(RpcKind::kRequest, UINT64_MAX, RpcHead::kMostRequestBytes)).ok());
  EXPECT_TRUE(check(head(RpcKind::kCancel, 1, 0)).ok());
  expect_refusal(check(head(RpcKind::kReply, 1, 1)), "kind 3");
  expect_refusal(check(head(RpcKind(77), 1, 1)), "kind 77");
  expect_refusal(check(head(RpcKind::kRequest, 0, 1)), "the id 0");
  expect_refusal(check(head(RpcKind::kRequest, 1, 0)), "0 bytes");
  expect_refusal(check(head(RpcKind::kRequest, 1, RpcHead::kMostRequestBytes + 1)),
                 "1048577 bytes");
  expect_refusal(check(head(RpcKind::kRequest, 1, 1, 5)), "status 5");
  expect_refusal(check(head(RpcKind::kCancel, 1, 8)), "8 bytes");
}

TEST(RpcHead, OfAServerAnswersARequestThatWasSent) {
  const auto check = [](const RpcHead& sent) { return sent.check_from_server(9, kPeer); };
  EXPECT_TRUE(check(head(RpcKind::kReply, 9, 1)).ok());
  EXPECT_TRUE(check(head(RpcKind::kReply, 1, RpcHead::kMostReplyBytes)).ok());
  EXPECT_TRUE(check(head(RpcKind::kReply, 1, 0, 1)).ok()) << "a message may be empty";
  EXPECT_TRUE(check(head(RpcKind::kReply, 1, RpcHead::kMostMessageBytes, 16)).ok());
  expect_refusal(check(head(RpcKind::kRequest, 1, 1)), "kind 1");
  expect_refusal(check(head(RpcKind::kReply, 0, 1)), "request 0");
  expect_refusal(check(head(RpcKind::kReply, 10, 1)), "request 10 and the last one was 9");
  expect_refusal(check(head(RpcKind::kReply, 1, 0)), "0 bytes");
  expect_refusal(check(head(RpcKind::kReply, 1, RpcHead::kMostReplyBytes + 1)), "2147483648 bytes");
  expect_refusal(check(head(RpcKind::kReply, 1, UINT64_MAX)), "18446744073709551615 bytes");
  expect_refusal(check(head(RpcKind::kReply, 1, RpcHead::kMostMessageBytes + 1, 1)), "4097 bytes");
  expect_refusal(check(head(RpcKind::kReply, 1, 1, 17)), "status 17");
  expect_refusal(check(head(RpcKind::kReply, 1, 1, -1)), "status -1");
}

}  // namespace
}  // namespace farwrite::experiments
