#include "device/control_requests.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace farwrite::device {
namespace {

const auto kNotEnded = [] { return Status(); };
const auto kTaken = [] { return true; };

ReplyMessage reply_to(std::uint64_t number) {
  ReplyMessage reply;
  reply.request = number;
  reply.lease = 100 + number;
  return reply;
}

TEST(ControlRequests, ReceiveTheirOwnAnswer) {
  ControlRequests requests;
  const std::uint64_t number = requests.next();
  EXPECT_NE(number, requests.next());
  auto reply = requests.ask(
      number, core::Deadline::never(),
      [&] {
        ReplyMessage other = reply_to(number + 1);
        EXPECT_FALSE(requests.answer(other, kTaken));
        ReplyMessage own = reply_to(number);
        EXPECT_TRUE(requests.answer(own, kTaken));
      },
      kNotEnded);
  ASSERT_TRUE(reply.ok() && reply->has_value());
  EXPECT_EQ((*reply)->lease, 100 + number);
}

TEST(ControlRequests, EndWithoutAnAnswerAtTheDeadline) {
  ControlRequests requests;
  auto reply = requests.ask(1, core::Deadline::after({}), [] {}, kNotEnded);
  ASSERT_TRUE(reply.ok());
  EXPECT_FALSE(reply->has_value());
  ReplyMessage late = reply_to(1);
  EXPECT_FALSE(requests.answer(late, kTaken)) << "nobody waits any more";
}

TEST(ControlRequests, LeaveAnAnswerThatIsNotAccepted) {
  ControlRequests requests;
  auto reply = requests.ask(
      1, core::Deadline::after(std::chrono::milliseconds(1)),
      [&] {
        ReplyMessage refused = reply_to(1);
        EXPECT_FALSE(requests.answer(refused, [] { return false; }));
      },
      kNotEnded);
  EXPECT_FALSE(reply.value().has_value());
}

TEST(ControlRequests, SayOnceThatTheWaitIsLong) {
  ControlRequests requests;
  int told = 0;
  const auto tell = [&] {
    ++told;
    ReplyMessage own = reply_to(1);  // without the mutex, which this takes
    EXPECT_TRUE(requests.answer(own, kTaken));
  };
  auto reply = requests.ask(1, core::Deadline::never(), [] {}, kNotEnded, tell);
  ASSERT_TRUE(reply.ok() && reply->has_value());
  EXPECT_EQ(told, 1);
  const auto soon = core::Deadline::after(std::chrono::milliseconds(10));
  EXPECT_FALSE(requests.ask(2, soon, [] {}, kNotEnded, tell)->has_value());
  EXPECT_EQ(told, 1) << "it ended before a second";
}

TEST(ControlRequests, EndWithTheReasonWhenNoAnswerWillCome) {
  ControlRequests requests;
  std::atomic<bool> ended{false};
  const auto why = [&] {
    return ended.load() ? Status(StatusCode::kUnavailable, "the peer has closed") : Status();
  };
  std::thread other;
  auto reply = requests.ask(
      1, core::Deadline::never(),
      [&] {
        other = std::thread([&] {
          ended.store(true);
          requests.look_again();
        });
      },
      why);
  other.join();
  EXPECT_EQ(reply.status().code(), StatusCode::kUnavailable);
  bool sent = false;
  const auto late = requests.ask(2, core::Deadline::never(), [&] { sent = true; }, why);
  EXPECT_EQ(late.status().code(), StatusCode::kUnavailable);
  EXPECT_FALSE(sent);
}

}  // namespace
}  // namespace farwrite::device
