#include "core/completion.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/channel_end.h"
#include "core/completion_state.h"
#include "core/inside.h"

namespace farwrite {
namespace {

using testing::StartsWith;

const Status kFailed(StatusCode::kPeerDead, "gone");

struct Operation {
  std::shared_ptr<core::CompletionState> state = std::make_shared<core::CompletionState>();
  Completion completion{state};
};

TEST(Completion, OfACallThatIsOverIsDone) {
  const Completion completion(kFailed);
  EXPECT_TRUE(completion.done());
  EXPECT_TRUE(completion.settled());
  EXPECT_EQ(completion.wait(std::chrono::nanoseconds(0)).code(), StatusCode::kPeerDead);
  completion.cancel();
  EXPECT_EQ(completion.wait().code(), StatusCode::kPeerDead);
  int called = 0;
  completion.on_done([&](const Status& status) {
    ++called;
    EXPECT_EQ(status.code(), StatusCode::kPeerDead);
  });
  EXPECT_EQ(called, 1);
}

TEST(Completion, IsWaitedForAgainAfterADeadline) {
  Operation operation;
  EXPECT_FALSE(operation.completion.done());
  EXPECT_EQ(operation.completion.wait(std::chrono::milliseconds(5)).code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_EQ(operation.completion.wait(std::chrono::nanoseconds(-1)).code(),
            StatusCode::kDeadlineExceeded);
  EXPECT_FALSE(operation.completion.done()) << "a deadline ends the waiting only";
  operation.state->finish(Status());
  EXPECT_TRUE(operation.completion.wait().ok());
  EXPECT_TRUE(operation.completion.settled());
}

TEST(Completion, NamesItsOperationAndItsPeerInEveryError) {
  const auto named = [] {
    Operation operation;
    operation.state->belongs_to(nullptr, "write", "a:1");
    return operation;
  };
  EXPECT_THAT(named().completion.wait(std::chrono::nanoseconds(0)).message(),
              StartsWith("write to a:1: the operation is still under way at the deadline; "));
  const Operation cancelled = named();
  cancelled.completion.cancel();
  EXPECT_THAT(cancelled.completion.wait().message(), StartsWith("write to a:1: cancelled by "));
  const int ends = 0;
  const core::Inside inside(&ends);
  Operation within;
  within.state->belongs_to(&ends, "read", "a:1");
  EXPECT_THAT(within.completion.wait().message(), StartsWith("read from a:1: this thread runs "));
}

TEST(Completion, NamesItsOperationInTheReasonOfItsChannelsEnd) {
  const auto reason = [](std::string_view operation) {
    return Status::error(StatusCode::kPeerDead, {operation, "a:1", "shm"}, "gone", "restart it");
  };
  const std::string expected = "write to a:1 over shm: gone; restart it";
  std::vector<std::string> told;
  const auto tell = [&](const Status& status) { told.push_back(status.message()); };
  Operation operation;
  operation.completion.on_done(tell);
  operation.completion.on_settled(tell);
  operation.state->belongs_to(nullptr, "write", "a:1");
  operation.state->finish(reason(core::kUseTheChannel));
  operation.completion.on_done(tell);
  operation.completion.on_settled(tell);
  EXPECT_EQ(operation.completion.wait().message(), expected);
  EXPECT_EQ(told, std::vector<std::string>(4, expected));

  Operation read;
  read.state->belongs_to(nullptr, "read", "a:1");
  read.state->finish(reason(core::kUseTheChannel));
  EXPECT_EQ(read.completion.wait().message(), "read from a:1 over shm: gone; restart it");

  Operation late;  // it ended before the channel could name it
  late.state->finish(reason(core::kUseTheChannel));
  late.state->belongs_to(nullptr, "write", "a:1");
  EXPECT_EQ(late.completion.wait().message(), expected);

  Operation other;
  other.state->belongs_to(nullptr, "write", "a:1");
  other.state->finish(reason("lend"));
  EXPECT_EQ(other.completion.wait().message(), reason("lend").message());
}

TEST(Completion, WakesEverybodyWhoWaits) {
  Operation operation;
  std::atomic<int> woken{0};
  std::vector<std::thread> waiters;
  for (int i = 0; i < 4; ++i) {
    waiters.emplace_back([&, completion = operation.completion] {
      EXPECT_EQ(completion.wait().code(), StatusCode::kPeerDead);
      woken.fetch_add(1);
    });
  }
  operation.state->finish(kFailed);
  for (std::thread& waiter : waiters) waiter.join();
  EXPECT_EQ(woken.load(), 4);
}

TEST(Completion, CancelledIsDoneButSettlesLater) {
  Operation operation;
  operation.completion.cancel();
  EXPECT_TRUE(operation.completion.done());
  EXPECT_EQ(operation.completion.wait().code(), StatusCode::kCancelled);
  EXPECT_FALSE(operation.completion.settled()) << "bytes may still move";
  operation.state->finish(Status());
  EXPECT_TRUE(operation.completion.settled());
  EXPECT_EQ(operation.completion.wait().code(), StatusCode::kCancelled)
      << "the first outcome stays";
}

TEST(Completion, KeepsItsFirstOutcome) {
  Operation operation;
  operation.state->finish(Status());
  operation.state->finish(kFailed);
  operation.state->abandon(kFailed);
  operation.completion.cancel();
  EXPECT_TRUE(operation.completion.wait().ok());
}

TEST(Completion, CallsBackOnceWhicheverWayItEnds) {
  for (const bool abandoned : {false, true}) {
    Operation operation;
    int called = 0;
    StatusCode code = StatusCode::kOk;
    operation.completion.on_done([&](const Status& status) {
      ++called;
      code = status.code();
    });
    EXPECT_EQ(called, 0);
    if (abandoned) operation.state->abandon(kFailed);
    operation.state->finish(kFailed);
    operation.completion.cancel();
    EXPECT_EQ(called, 1);
    EXPECT_EQ(code, StatusCode::kPeerDead);
    operation.completion.on_done([&](const Status&) { ++called; });
    EXPECT_EQ(called, 2) << "a late callback runs at once";
  }
}

TEST(Completion, CallbackMayUseTheCompletion) {
  Operation operation;
  bool done = false;
  operation.completion.on_done([&](const Status&) {
    done = operation.completion.done() && operation.completion.wait().ok();
    operation.completion.on_done([](const Status&) {});
  });
  operation.state->finish(Status());
  EXPECT_TRUE(done);
}

TEST(Completion, CallsBackOnceWhenRegistrationAndEndRace) {
  for (int round = 0; round < 500; ++round) {
    Operation operation;
    std::atomic<int> called{0};
    std::thread ending([&] { operation.state->finish(Status()); });
    std::thread cancelling([&] { operation.completion.cancel(); });
    for (int i = 0; i < 3; ++i) {
      operation.completion.on_done([&](const Status&) { called.fetch_add(1); });
    }
    ending.join();
    cancelling.join();
    ASSERT_EQ(called.load(), 3);
  }
}

TEST(Completion, PendingInAForkedChildIsAnErrorAndNotAHang) {
  const auto state = std::make_shared<core::CompletionState>();
  const Completion completion(state);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(static_cast<int>(completion.wait().code()));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, static_cast<int>(StatusCode::kForked) << 8);
  state->finish(Status());
}

TEST(Completion, OutlivesWhoeverMadeIt) {
  Completion completion{Status()};
  {
    Operation operation;
    completion = operation.completion;
    operation.state->finish(kFailed);
  }
  EXPECT_EQ(completion.wait().code(), StatusCode::kPeerDead);
}

TEST(Completion, TellsWhenItIsSettledAndNotWhenTheWaitingEnds) {
  auto state = std::make_shared<core::CompletionState>();
  const Completion completion(state);
  int settled = 0;
  completion.on_settled([&](const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::kCancelled);
    ++settled;
  });
  completion.cancel();
  EXPECT_EQ(settled, 0);
  state->finish(Status());
  EXPECT_EQ(settled, 1);
  completion.on_settled([&](const Status&) { ++settled; });
  EXPECT_EQ(settled, 2);
}

}  // namespace
}  // namespace farwrite
