#include <gtest/gtest.h>

#include <string>

#include "fabric/tcp/join.h"

namespace farwrite::fabric::tcp {
namespace {

Secret secret(int byte) {
  Secret value{};
  value.fill(static_cast<std::byte>(byte));
  return value;
}

TEST(Join, ComesBackAsItWasSent) {
  const JoinMessage sent = JoinMessage::of(secret(1), 3, 5);
  const auto bytes = sent.to_bytes();
  const auto read = JoinMessage::from_bytes({bytes.data(), bytes.size()});
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read.value().lane, 3);
  EXPECT_EQ(read.value().lanes, 5u);
  EXPECT_EQ(read.value().proof, sent.proof);
  const JoinedMessage answer = JoinedMessage::of(secret(1), 3);
  const auto answer_bytes = answer.to_bytes();
  const auto read_answer = JoinedMessage::from_bytes({answer_bytes.data(), answer_bytes.size()});
  ASSERT_TRUE(read_answer.ok());
  EXPECT_EQ(read_answer.value().proof, answer.proof);
}

TEST(Join, ProofsDifferBySecretLaneLanesAndSide) {
  const auto proof = JoinMessage::of(secret(1), 0, 2).proof;
  EXPECT_NE(proof, JoinMessage::of(secret(2), 0, 2).proof);
  EXPECT_NE(proof, JoinMessage::of(secret(1), 1, 2).proof);
  EXPECT_NE(proof, JoinMessage::of(secret(1), 0, 3).proof);
  EXPECT_NE(JoinMessage::of(secret(1), 0, 0).proof, JoinedMessage::of(secret(1), 0).proof);
}

TEST(Join, OtherProgramsAreNoOtherRelease) {
  // A port scanner, or nothing but zeros.
  for (const char byte : {'G', '\0'}) {
    const std::string junk(JoinMessage::kBytes, byte);
    for (const Status& status :
         {JoinMessage::from_bytes({junk.data(), JoinMessage::kBytes}).status(),
          JoinedMessage::from_bytes({junk.data(), JoinedMessage::kBytes}).status()}) {
      EXPECT_NE(status.message().find("which program"), std::string::npos) << status.message();
      EXPECT_EQ(status.message().find("release"), std::string::npos) << status.message();
    }
  }
}

TEST(Join, AnythingElseIsAProtocolError) {
  const auto join = JoinMessage::of(secret(1), 0, 1).to_bytes();
  const auto joined = JoinedMessage::of(secret(1), 0).to_bytes();
  EXPECT_EQ(JoinMessage::from_bytes({join.data(), join.size() - 1}).status().code(),
            StatusCode::kProtocolError);
  EXPECT_EQ(JoinedMessage::from_bytes({join.data(), JoinedMessage::kBytes}).status().code(),
            StatusCode::kProtocolError);
  EXPECT_EQ(JoinMessage::from_bytes({joined.data(), joined.size()}).status().code(),
            StatusCode::kProtocolError);
}

}  // namespace
}  // namespace farwrite::fabric::tcp
