#include "farwrite/status.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <memory>
#include <set>
#include <string>

namespace farwrite {
namespace {

TEST(Status, IsOkByDefaultAndSaysSo) {
  const Status status;
  EXPECT_TRUE(status.ok());
  EXPECT_TRUE(static_cast<bool>(status));
  EXPECT_EQ(status.code(), StatusCode::kOk);
  EXPECT_EQ(status.to_string(), "ok");
}

TEST(Status, NamesOperationPeerFabricCauseAndRemedyInOneSentence) {
  const Status status = Status::error(
      StatusCode::kOutOfRange, {.operation = "write", .peer = "127.0.0.1:7777", .fabric = "shm"},
      "offset 96 + 64 bytes ends past the region's 128 bytes", "write at most 32 bytes");
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(status.code(), StatusCode::kOutOfRange);
  EXPECT_EQ(status.message(),
            "write to 127.0.0.1:7777 over shm: offset 96 + 64 bytes ends past the region's 128 "
            "bytes; write at most 32 bytes");
  EXPECT_EQ(status.to_string(), "out of range: " + status.message());
}

TEST(Status, LeavesOutWhatIsEmpty) {
  const auto message = [](const ErrorContext& where, const char* cause, const char* remedy) {
    return Status::error(StatusCode::kInternal, where, cause, remedy).message();
  };
  EXPECT_EQ(message({.operation = "allocate"}, "no space", "free some"),
            "allocate: no space; free some");
  EXPECT_EQ(message({.operation = "read", .fabric = "tcp"}, "gone", ""), "read over tcp: gone");
  EXPECT_EQ(message({.operation = "read", .peer = "a:1"}, "", "retry"), "read from a:1; retry");
  EXPECT_EQ(message({.operation = "list the segments", .peer = "a:1"}, "", "retry"),
            "list the segments at a:1; retry");
  EXPECT_EQ(message({.operation = "open memory", .peer = "a:1"}, "", "retry"),
            "open memory at a:1; retry");
  EXPECT_EQ(message({.operation = "allocate", .peer = "a:1"}, "", "retry"),
            "allocate for a:1; retry");
  EXPECT_EQ(message({.operation = "write", .peer = "a:1"}, "", "retry"), "write to a:1; retry");
  EXPECT_EQ(message({.operation = ""}, "gone", "retry"), "gone; retry");
  EXPECT_EQ(message({.operation = ""}, "", ""), "");
}

TEST(Status, AppendsErrnoTextAndNumberToTheCause) {
  const ErrorContext where{.operation = "connect", .peer = "127.0.0.1:1", .fabric = "tcp"};
  EXPECT_EQ(Status::system_error(StatusCode::kUnavailable, where, "", ECONNREFUSED,
                                 "start the peer first")
                .message(),
            "connect to 127.0.0.1:1 over tcp: Connection refused (errno 111); start the peer "
            "first");
  EXPECT_EQ(Status::system_error(StatusCode::kResourceExhausted, {.operation = "start"}, "eventfd",
                                 EMFILE, "raise the limit")
                .message(),
            "start: eventfd: Too many open files (errno 24); raise the limit");
}

TEST(Status, SaysWhatIsUsedUpWhereTheCodeSaysLittle) {
  const ErrorContext where{.operation = "read the file"};
  for (const int used_up : {EMFILE, ENFILE, ENOMEM, ENOBUFS, ENOSPC, EDQUOT}) {
    const Status status =
        Status::system_error(StatusCode::kUnavailable, where, "open", used_up, "name another");
    EXPECT_EQ(status.code(), StatusCode::kResourceExhausted);
    EXPECT_EQ(status.message().find("name another"), std::string::npos) << status.message();
  }
  EXPECT_EQ(Status::system_error(StatusCode::kUnavailable, where, "open", EACCES, "").code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(Status::system_error(StatusCode::kUnsupported, where, "open", ENOMEM, "").code(),
            StatusCode::kUnsupported);
}

TEST(Status, GivesEveryCodeANameOfItsOwn) {
  std::set<std::string_view> names;
  const int last = static_cast<int>(StatusCode::kEndOfStream);
  for (int code = 0; code <= last; ++code) names.insert(to_string(static_cast<StatusCode>(code)));
  EXPECT_EQ(names.size(), static_cast<std::size_t>(last) + 1);
  EXPECT_EQ(names.count("unknown"), 0u);
  EXPECT_EQ(to_string(StatusCode::kPeerRestarted), "peer restarted");
  EXPECT_EQ(to_string(static_cast<StatusCode>(250)), "unknown");
}

TEST(Status, ReturnIfErrorLeavesTheFunctionOnlyOnAnError) {
  const auto run = [](Status status) -> Status {
    FARWRITE_RETURN_IF_ERROR(status);
    return Status(StatusCode::kCancelled, "went on");
  };
  EXPECT_EQ(run(Status()).code(), StatusCode::kCancelled);
  EXPECT_EQ(run(Status(StatusCode::kNotFound, "none")).code(), StatusCode::kNotFound);
}

TEST(Result, HoldsAMoveOnlyValue) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result.status().ok());
  const std::unique_ptr<int> value = *std::move(result);
  EXPECT_EQ(*value, 7);
}

TEST(ResultDeathTest, AbortsWithTheMessageWhenAskedForAValueItDoesNotHold) {
  const Result<int> result(Status(StatusCode::kNotFound, "lookup: no such name"));
  ASSERT_FALSE(result.ok());
  EXPECT_DEATH((void)result.value(), "not found: lookup: no such name");
}

}  // namespace
}  // namespace farwrite
