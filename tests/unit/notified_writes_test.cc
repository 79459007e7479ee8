// Which lowering is chosen and why, and that flush and message keeps a lane's order.
#include "fabric/notified_writes.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace farwrite::fabric {
namespace {

Capabilities can(bool immediate, bool whole_message_order) {
  Capabilities capabilities;
  capabilities.has_immediate = immediate;
  capabilities.whole_message_order = whole_message_order;
  return capabilities;
}

TEST(Lowering, ImmediatesAreTakenWhereThereAreAny) {
  EXPECT_EQ(choose_lowering(can(true, true))->lowering, NotificationLowering::kImmediate);
  EXPECT_EQ(choose_lowering(can(false, true))->lowering, NotificationLowering::kFlushAndMessage)
      << "a tail flag is never chosen";
  EXPECT_FALSE(choose_lowering(can(false, false))->reason.empty());
}

TEST(Lowering, ForcedOnesAreUsedOrRefusedWithTheReason) {
  for (const bool immediate : {false, true}) {
    for (const bool order : {false, true}) {
      const auto forced = [&](NotificationLowering lowering) {
        return choose_lowering(can(immediate, order), lowering).status().code();
      };
      EXPECT_EQ(forced(NotificationLowering::kFlushAndMessage), StatusCode::kOk);
      EXPECT_EQ(forced(NotificationLowering::kImmediate),
                immediate ? StatusCode::kOk : StatusCode::kUnsupported);
      EXPECT_EQ(forced(NotificationLowering::kTailFlag),
                order ? StatusCode::kOk : StatusCode::kUnsupported);
    }
  }
}

// A link whose operations end when the test says so.
class Posts {
 public:
  NotifiedWrites::Post function() {
    return [this](std::uint32_t /*lane*/, const Operation& operation) {
      posted.push_back(operation);
      messages.emplace_back(operation.source.data, operation.source.data + operation.source.size);
      states.push_back(std::make_shared<core::CompletionState>());
      return Completion(states.back());
    };
  }
  void finish(std::size_t index, Status status = Status()) {
    states.at(index)->finish(std::move(status));
  }

  std::vector<Operation> posted;
  std::vector<std::vector<std::byte>> messages;
  std::vector<std::shared_ptr<core::CompletionState>> states;
};

Operation operation(OperationKind kind, std::uint32_t tag = 0) {
  Operation result;
  result.kind = kind;
  result.tag = tag;
  result.notify = kind == OperationKind::kWrite;
  return result;
}

TEST(NotifiedWrites, TheNotificationFollowsTheFlush) {
  Posts posts;
  const auto writes = std::make_shared<NotifiedWrites>(1, "verbs", "the peer", posts.function());
  const Completion completion = writes->post(0, operation(OperationKind::kWrite, 7));
  ASSERT_EQ(posts.posted.size(), 2U);
  EXPECT_EQ(posts.posted[0].kind, OperationKind::kWrite);
  EXPECT_FALSE(posts.posted[0].notify);
  EXPECT_EQ(posts.posted[1].kind, OperationKind::kFlush);
  posts.finish(0);
  EXPECT_EQ(posts.posted.size(), 2U);
  posts.finish(1);
  ASSERT_EQ(posts.posted.size(), 3U);
  EXPECT_EQ(posts.posted[2].kind, OperationKind::kNotify);
  EXPECT_EQ(posts.posted[2].tag, 7U);
  EXPECT_FALSE(completion.done());
  posts.finish(2);
  EXPECT_TRUE(completion.done() && completion.wait().ok());
}

TEST(NotifiedWrites, WhatTheLaneTellsLaterWaitsAndOtherLanesDoNot) {
  Posts posts;
  const auto writes = std::make_shared<NotifiedWrites>(2, "verbs", "the peer", posts.function());
  writes->post(0, operation(OperationKind::kWrite, 1));
  std::vector<std::byte> text(3, std::byte{'x'});
  Operation message = operation(OperationKind::kMessage, 2);
  message.source = {text.data(), text.size()};
  const Completion held = writes->post(0, message);
  text.assign(3, std::byte{0});  // the caller's again
  writes->post(0, operation(OperationKind::kNotify, 3));
  EXPECT_EQ(posts.posted.size(), 2U);
  writes->post(1, operation(OperationKind::kNotify, 4));
  ASSERT_EQ(posts.posted.size(), 3U);
  EXPECT_EQ(posts.posted[2].tag, 4U);
  posts.finish(0);
  posts.finish(1);
  ASSERT_EQ(posts.posted.size(), 6U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(posts.posted[3 + i].tag, i + 1);
    EXPECT_TRUE(posts.posted[3 + i].accepted) << "the link has to take it";
  }
  EXPECT_FALSE(posts.posted[2].accepted) << "nothing held this one back";
  EXPECT_EQ(posts.messages[4], std::vector<std::byte>(3, std::byte{'x'}));
  posts.finish(4);
  EXPECT_TRUE(held.done());
  writes->post(0, operation(OperationKind::kNotify, 5));
  EXPECT_EQ(posts.posted.size(), 7U) << "nothing is held any more";
}

// A peer that takes nothing: the link has to keep what was held back, so that must be bounded.
TEST(NotifiedWrites, WhatTheLinkHasToKeepCounts) {
  Posts posts;
  const auto writes = std::make_shared<NotifiedWrites>(1, "verbs", "the peer", posts.function());
  Completion refused{Status()};
  std::size_t accepted = 0;
  for (; refused.done() && refused.wait().ok() && accepted <= kMaxHeldRecords; ++accepted) {
    const Completion written = writes->post(0, operation(OperationKind::kWrite, 1));
    if (written.done()) {
      refused = written;
      break;
    }
    posts.finish(posts.states.size() - 2);  // the write
    posts.finish(posts.states.size() - 1);  // its flush; the notification is posted, and waits
  }
  EXPECT_EQ(accepted, kMaxHeldRecords);
  EXPECT_EQ(refused.wait().code(), StatusCode::kResourceExhausted);
  posts.finish(2);  // the first notification goes
  EXPECT_FALSE(writes->post(0, operation(OperationKind::kWrite, 2)).done());
}

TEST(NotifiedWrites, AnEarlierFlushThatIsSlowHoldsALaterOneBack) {
  Posts posts;
  const auto writes = std::make_shared<NotifiedWrites>(1, "verbs", "the peer", posts.function());
  writes->post(0, operation(OperationKind::kWrite, 1));
  writes->post(0, operation(OperationKind::kWrite, 2));
  ASSERT_EQ(posts.posted.size(), 4U);
  posts.finish(3);  // the second flush
  EXPECT_EQ(posts.posted.size(), 4U);
  posts.finish(1);
  ASSERT_EQ(posts.posted.size(), 6U);
  EXPECT_EQ(posts.posted[4].tag, 1U);
  EXPECT_EQ(posts.posted[5].tag, 2U);
}

TEST(NotifiedWrites, ALostWriteNotifiesNobodyAndIsToldTwice) {
  Posts posts;
  const auto writes = std::make_shared<NotifiedWrites>(1, "verbs", "the peer", posts.function());
  const Completion lost = writes->post(0, operation(OperationKind::kWrite, 1));
  const Completion behind = writes->post(0, operation(OperationKind::kNotify, 2));
  posts.finish(0);
  posts.finish(1, Status(StatusCode::kPermissionDenied, "refused"));
  EXPECT_EQ(lost.wait(std::chrono::seconds(0)).code(), StatusCode::kPermissionDenied);
  ASSERT_EQ(posts.posted.size(), 3U);
  EXPECT_EQ(posts.posted[2].tag, 2U) << "what waited behind it goes on";
  posts.finish(2);
  EXPECT_TRUE(behind.wait(std::chrono::seconds(0)).ok());
  // The user's flush was promised to fail if an earlier write did, and ours has used that up.
  const Completion flush = writes->post(0, operation(OperationKind::kFlush));
  posts.finish(3);
  EXPECT_EQ(flush.wait(std::chrono::seconds(0)).code(), StatusCode::kPermissionDenied);
  const Completion next = writes->post(0, operation(OperationKind::kFlush));
  posts.finish(4);
  EXPECT_TRUE(next.wait(std::chrono::seconds(0)).ok());
}

TEST(NotifiedWrites, AnAbandonedWriteSettlesOnlyWithItsBytes) {
  Posts posts;
  auto writes = std::make_shared<NotifiedWrites>(1, "verbs", "the peer", posts.function());
  const Completion completion = writes->post(0, operation(OperationKind::kWrite, 1));
  const Status over(StatusCode::kCancelled, "closed");
  posts.states[0]->abandon(over);
  posts.states[1]->abandon(over);
  EXPECT_TRUE(completion.done());
  EXPECT_FALSE(completion.settled()) << "its bytes may still be fetched";
  posts.finish(0);
  posts.states.clear();
  writes.reset();
  EXPECT_TRUE(completion.settled());
}

}  // namespace
}  // namespace farwrite::fabric
