// Outbox: what waits for its receiver goes in order, and within bounds.
#include "fabric/outbox.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "simulated/random.h"

namespace farwrite::fabric {
namespace {

using Numbers = Outbox<int>;

std::vector<int> drain(Numbers& outbox) {
  std::vector<int> gone;
  while (const auto number = outbox.next()) gone.push_back(*number);
  return gone;
}

TEST(Outbox, AdmitsWithoutCreditWhatCostsNothing) {
  Numbers outbox("shm", "the peer");
  EXPECT_TRUE(outbox.admit(0));
  EXPECT_FALSE(outbox.admit(1));
  EXPECT_FALSE(outbox.waits());
}

TEST(Outbox, AdmitsUntilTheCreditIsUsedUp) {
  Numbers outbox("tcp", "the peer");
  outbox.set_credit(3);
  EXPECT_TRUE(outbox.admit(2));
  EXPECT_FALSE(outbox.admit(2));
  EXPECT_TRUE(outbox.admit(1)) << "a refusal takes nothing";
}

TEST(Outbox, NothingPassesARecordThatWaits) {
  Numbers outbox("tcp", "the peer");
  outbox.set_credit(3);
  ASSERT_TRUE(outbox.hold(1, {0, 4}).ok());
  EXPECT_FALSE(outbox.admit(1)) << "there is credit, but it would overtake";
  EXPECT_FALSE(outbox.admit(0));
}

struct Record {
  std::shared_ptr<core::CompletionState> completion;
};

TEST(Outbox, ARecordThatWaitsHasAPendingCompletion) {
  Outbox<Record> outbox("tcp", "the peer");
  outbox.set_credit(1);
  ASSERT_TRUE(outbox.admit(1));
  const Completion completion = outbox.hold_pending({}, {0, 1});
  EXPECT_FALSE(completion.done());
  ASSERT_TRUE(outbox.add_credit(1));
  outbox.next()->completion->finish(Status());
  EXPECT_TRUE(completion.done());
}

TEST(Outbox, ARecordBeyondTheBoundsHasAFailedCompletion) {
  Outbox<Record, 1> outbox("tcp", "the peer");
  EXPECT_FALSE(outbox.hold_pending({}, {}).done());
  const Completion refused = outbox.hold_pending({}, {});
  ASSERT_TRUE(refused.done());
  EXPECT_EQ(refused.wait().code(), StatusCode::kResourceExhausted);
}

TEST(Outbox, LetsGoInOrderAsCreditComesBack) {
  Numbers outbox("tcp", "the peer");
  outbox.set_credit(2);
  ASSERT_TRUE(outbox.admit(2));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(outbox.hold(i, {0, 1}).ok());
  EXPECT_EQ(drain(outbox), std::vector<int>());
  ASSERT_TRUE(outbox.add_credit(1));
  EXPECT_EQ(drain(outbox), std::vector<int>({0}));
  EXPECT_TRUE(outbox.waits());
  ASSERT_TRUE(outbox.add_credit(2));
  EXPECT_EQ(drain(outbox), std::vector<int>({1, 2}));
  ASSERT_TRUE(outbox.add_credit(2));
  EXPECT_EQ(drain(outbox), std::vector<int>({3}));
  EXPECT_FALSE(outbox.waits());
  EXPECT_TRUE(outbox.admit(1));
}

TEST(Outbox, RefusesCreditThatWasNeverGranted) {
  Numbers outbox("tcp", "the peer");
  outbox.set_credit(5);
  EXPECT_FALSE(outbox.add_credit(1));
  ASSERT_TRUE(outbox.admit(3));
  EXPECT_FALSE(outbox.add_credit(4));
  EXPECT_FALSE(outbox.add_credit(UINT64_MAX));
  EXPECT_TRUE(outbox.add_credit(3));
  EXPECT_TRUE(outbox.admit(5));
}

TEST(Outbox, KeepsAWholeRecordThatTheWireHasNoRoomFor) {
  Numbers outbox("shm", "the peer");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(outbox.hold(i, {}).ok());
  int room = 2;
  const auto goes = [&](int) { return room-- > 0; };
  std::vector<int> gone;
  while (const auto number = outbox.next(goes)) gone.push_back(*number);
  EXPECT_EQ(gone, std::vector<int>({0, 1}));
  EXPECT_EQ(drain(outbox), std::vector<int>({2}));
}

TEST(Outbox, SaysWhenTheSenderIsTooManyRecordsAhead) {
  Numbers outbox("shm", "127.0.0.1:7777");
  for (std::size_t i = 0; i < kMaxHeldRecords; ++i) ASSERT_TRUE(outbox.hold(0, {}).ok());
  const Status full = outbox.hold(0, {});
  EXPECT_EQ(full.code(), StatusCode::kResourceExhausted);
  for (const char* part : {"notify", "127.0.0.1:7777", "shm", "65536 notifications"}) {
    EXPECT_NE(full.message().find(part), std::string::npos) << full.message();
  }
  ASSERT_TRUE(outbox.next().has_value());
  EXPECT_TRUE(outbox.hold(0, {}).ok());
}

TEST(Outbox, SaysWhenTheSenderIsTooManyBytesAhead) {
  Numbers outbox("shm", "the peer");
  ASSERT_TRUE(outbox.hold(0, {kMaxHeldBytes - 8}).ok());
  EXPECT_EQ(outbox.hold(1, {9}).code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(outbox.hold(1, {8}).ok());
  ASSERT_TRUE(outbox.next().has_value());
  EXPECT_TRUE(outbox.hold(2, {kMaxHeldBytes - 8}).ok());
}

TEST(Outbox, HoldsMoreOfWhatWasPromisedToGo) {
  Numbers outbox("tcp", "the peer");
  const Weight promised = {.bytes = kMaxHeldBytes, .accepted = true};
  for (std::uint64_t i = 0; i < kAcceptedShare; ++i) ASSERT_TRUE(outbox.hold(0, promised).ok());
  EXPECT_EQ(outbox.hold(0, {.bytes = 1, .accepted = true}).code(), StatusCode::kResourceExhausted);
  ASSERT_TRUE(outbox.next().has_value());
  EXPECT_TRUE(outbox.hold(0, {.bytes = 1, .accepted = true}).ok());
  EXPECT_EQ(outbox.hold(0, {.bytes = 1}).code(), StatusCode::kResourceExhausted);
}

TEST(Outbox, AlwaysHasAPlaceForTheEndOfTheLane) {
  Numbers outbox("tcp", "the peer");
  for (std::size_t i = 0; i < kMaxHeldRecords; ++i) ASSERT_TRUE(outbox.hold(0, {}).ok());
  ASSERT_TRUE(outbox.hold(7, {.accepted = true}).ok());
  int last = 0;
  while (const auto number = outbox.next()) last = *number;
  EXPECT_EQ(last, 7);
}

TEST(Outbox, DropsEverythingInOrderWhateverRoomThereIs) {
  Numbers outbox("verbs", "the peer");
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(outbox.hold(i, {1, 1}).ok());
  std::vector<int> dropped;
  while (const auto number = outbox.drop()) dropped.push_back(*number);
  EXPECT_EQ(dropped, std::vector<int>({0, 1, 2}));
  EXPECT_FALSE(outbox.waits());
}

TEST(Outbox, CountsWhatWaitedForItsReceiverAndNothingElse) {
  Numbers outbox("tcp", "the peer");
  outbox.set_credit(1);
  ASSERT_TRUE(outbox.admit(1));
  ASSERT_TRUE(outbox.queue(0, {}).ok());
  EXPECT_EQ(outbox.backlogged(), 0U);
  ASSERT_TRUE(outbox.hold(1, {}).ok());
  EXPECT_EQ(outbox.backlogged(), 1U);
}

TEST(Outbox, HoldsWhatCannotBeCopied) {
  Outbox<std::unique_ptr<int>> outbox("verbs", "the peer");
  ASSERT_TRUE(outbox.hold(std::make_unique<int>(7), {}).ok());
  const auto number = outbox.next();
  ASSERT_TRUE(number.has_value());
  EXPECT_EQ(**number, 7);
}

// A sender and a receiver that come to their turns by chance, with a wire of a few places between
// them. The receiver grants back what it takes.
void run_by_chance(std::uint64_t seed) {
  Random random(seed);
  Outbox<std::pair<int, std::uint64_t>> outbox("simulated", "the peer");
  const std::uint64_t window = 1 + random.below(64);
  outbox.set_credit(window);
  std::deque<std::pair<int, std::uint64_t>> wire;
  std::vector<int> taken;
  std::uint64_t under_way = 0;
  const std::size_t places = 1 + random.below(8);
  int posted = 0;
  const int total = 500;
  const auto send = [&](const std::pair<int, std::uint64_t>& record) {
    wire.push_back(record);
    under_way += record.second;
    ASSERT_LE(under_way, window) << "seed " << seed;
  };
  const auto has_place = [&](const auto&) { return wire.size() < places; };
  while (taken.size() < static_cast<std::size_t>(total)) {
    if (posted < total && random.chance(0.6)) {
      const std::pair<int, std::uint64_t> record{posted++, 1 + random.below(window)};
      if (wire.size() < places && outbox.admit(record.second)) {
        send(record);
      } else {
        ASSERT_TRUE(outbox.hold(record, {0, record.second}).ok());
      }
    }
    if (!wire.empty() && random.chance(0.4)) {
      taken.push_back(wire.front().first);
      under_way -= wire.front().second;
      ASSERT_TRUE(outbox.add_credit(wire.front().second)) << "seed " << seed;
      wire.pop_front();
    }
    if (random.chance(0.5)) {
      while (const auto record = outbox.next(has_place)) send(*record);
    }
  }
  for (int i = 0; i < total; ++i)
    ASSERT_EQ(taken[static_cast<std::size_t>(i)], i) << "seed " << seed;
}

TEST(Outbox, KeepsOrderAndCreditHoweverTheTurnsFall) {
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    ASSERT_NO_FATAL_FAILURE(run_by_chance(seed));
  }
}

}  // namespace
}  // namespace farwrite::fabric
