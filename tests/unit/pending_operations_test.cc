#include "device/pending_operations.h"

#include <gtest/gtest.h>

#include <chrono>
#include <memory>

namespace farwrite::device {
namespace {

using Kind = PendingOperations::Kind;

Status outcome(const core::CompletionState& operation) {
  return operation.wait(std::chrono::nanoseconds(0));
}

class Pending : public ::testing::Test {
 protected:
  std::shared_ptr<core::CompletionState> add(Kind kind) {
    auto operation = std::make_shared<core::CompletionState>();
    pending_.add(operation, kind);
    return operation;
  }
  const Status reason_{StatusCode::kPeerDead, "the peer is dead"};
  PendingOperations pending_;
};

TEST_F(Pending, EndWithTheReasonButForAwaitedReads) {
  const auto write = add(Kind::kUntilTheEnd);
  const auto read = add(Kind::kAwaitedReads);
  pending_.abandon(reason_, /*reads_too=*/false);
  EXPECT_EQ(outcome(*write).code(), StatusCode::kPeerDead);
  EXPECT_FALSE(read->done());
  pending_.abandon(reason_, /*reads_too=*/true);
  EXPECT_EQ(outcome(*read).code(), StatusCode::kPeerDead);
}

TEST_F(Pending, ArePendingUntilTheyEnd) {
  EXPECT_FALSE(pending_.any());
  const auto read = add(Kind::kAwaitedReads);
  EXPECT_FALSE(pending_.any());
  const auto write = add(Kind::kUntilTheEnd);
  EXPECT_TRUE(pending_.any());
  write->finish(Status());
  EXPECT_FALSE(pending_.any());
}

TEST_F(Pending, AreNotKeptAlive) {
  const std::weak_ptr<core::CompletionState> dropped = add(Kind::kUntilTheEnd);
  EXPECT_TRUE(dropped.expired());
  EXPECT_FALSE(pending_.any());
}

TEST_F(Pending, SurviveManyThatHaveEnded) {
  const auto first = add(Kind::kUntilTheEnd);
  for (int i = 0; i < 1000; ++i) add(Kind::kUntilTheEnd)->finish(Status());
  EXPECT_TRUE(pending_.any());
  pending_.abandon(reason_, /*reads_too=*/true);
  EXPECT_EQ(outcome(*first).code(), StatusCode::kPeerDead);
}

}  // namespace
}  // namespace farwrite::device
