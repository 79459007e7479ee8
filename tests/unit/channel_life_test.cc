#include "device/channel_life.h"

#include <gtest/gtest.h>

#include <thread>

namespace farwrite::device {
namespace {

using Turn = ChannelLife::Turn;

const Status kLeft(StatusCode::kUnavailable, "the peer closed the channel");
const Status kDied(StatusCode::kPeerDead, "the peer is dead");
const Status kQuiet(StatusCode::kPeerSilent, "nothing was received");
const core::Deadline kNow = core::Deadline::after({});

class Life : public ::testing::Test {
 protected:
  // As a channel that closes without trouble.
  void close() {
    life_.begin_closing();
    ASSERT_EQ(life_.begin_settling(kNow), Turn::kMine);
    life_.end_settling(/*closed=*/true, Status());
  }
  ChannelLife life_;
};

TEST_F(Life, KeepsTheFirstEndOfThePeer) {
  EXPECT_TRUE(life_.peer_is(PeerState::kClosed, kLeft, /*good_order=*/true).changed);
  EXPECT_FALSE(life_.peer_is(PeerState::kDead, kDied, false).changed);
  EXPECT_EQ(life_.peer_state(), PeerState::kClosed);
  EXPECT_EQ(life_.peer_reason().code(), StatusCode::kUnavailable);
  EXPECT_TRUE(life_.left_in_good_order());
}

TEST_F(Life, LetsAPeerLingerOnlyAfterAnEndInGoodOrderAndWhileItLives) {
  EXPECT_FALSE(life_.peer_lingers());
  life_.peer_is(PeerState::kClosed, kLeft, /*good_order=*/true);
  EXPECT_TRUE(life_.peer_lingers());
  life_.peer_is_gone();
  EXPECT_FALSE(life_.peer_lingers());
}

TEST_F(Life, WarnsOfEachSilenceOnce) {
  EXPECT_FALSE(life_.take_silence_to_warn_of().has_value());
  life_.peer_is(PeerState::kSilent, kQuiet, false);
  EXPECT_EQ(life_.take_silence_to_warn_of()->code(), StatusCode::kPeerSilent);
  EXPECT_FALSE(life_.take_silence_to_warn_of().has_value());
  EXPECT_TRUE(life_.peer_is(PeerState::kAlive, Status(), false).ended_silence);
  EXPECT_TRUE(life_.peer_reason().ok()) << "a silent peer may come back";
  life_.peer_is(PeerState::kSilent, kQuiet, false);
  EXPECT_FALSE(life_.peer_is(PeerState::kAlive, Status(), false).ended_silence)
      << "nobody was warned of this one";
}

TEST_F(Life, CallsTheEndHandlerOnceAndAfterTheLanesAreDrained) {
  int calls = 0;
  life_.set_end_handler([&](bool good_order, const Status& reason) {
    ++calls;
    EXPECT_FALSE(good_order);
    EXPECT_EQ(reason.code(), StatusCode::kPeerDead);
  });
  life_.peer_is(PeerState::kDead, kDied, false);
  life_.call_end_handler_if_due();
  EXPECT_EQ(calls, 0);
  life_.lanes_are_drained();
  life_.call_end_handler_if_due();
  life_.call_end_handler_if_due();
  EXPECT_EQ(calls, 1);
}

TEST_F(Life, CallsNoEndHandlerOnceThisSideCloses) {
  life_.set_end_handler([](bool, const Status&) { FAIL(); });
  life_.peer_is(PeerState::kDead, kDied, false);
  life_.lanes_are_drained();
  life_.begin_closing();
  life_.call_end_handler_if_due();
}

TEST_F(Life, WaitsForAnEndHandlerThatRuns) {
  bool ended_in_time = true;
  life_.set_end_handler([&](bool, const Status&) {
    std::thread([&] { ended_in_time = life_.drop_end_handler(kNow); }).join();
  });
  life_.lanes_are_drained();
  life_.call_end_handler_if_due();
  EXPECT_FALSE(ended_in_time);
  EXPECT_TRUE(life_.drop_end_handler(kNow));
}

TEST_F(Life, LetsOneThreadSettleAtATime) {
  EXPECT_FALSE(life_.resume_settling()) << "nothing has begun to close";
  life_.begin_closing();
  ASSERT_EQ(life_.begin_settling(kNow), Turn::kMine);
  EXPECT_EQ(life_.begin_settling(kNow), Turn::kBusy);
  EXPECT_FALSE(life_.resume_settling());
  life_.end_settling(/*closed=*/false, kQuiet);
  EXPECT_TRUE(life_.resume_settling()) << "something was left undone";
  life_.end_settling(/*closed=*/true, Status());
  EXPECT_EQ(life_.begin_settling(kNow), Turn::kOver);
}

TEST_F(Life, LetsAChannelThatClosedWithAnErrorBeClosedAgain) {
  life_.begin_closing();
  ASSERT_EQ(life_.begin_settling(kNow), Turn::kMine);
  life_.end_settling(/*closed=*/true, kQuiet);
  EXPECT_FALSE(life_.resume_settling()) << "the timer does not repeat it";
  ASSERT_EQ(life_.begin_settling(kNow), Turn::kMine);
  EXPECT_TRUE(life_.closed_before());
}

TEST_F(Life, OwesFinAfterItsCloseOrAfterThePeersLastBytes) {
  EXPECT_FALSE(life_.fin_is_due());
  life_.peer_is(PeerState::kClosed, kLeft, /*good_order=*/true);
  EXPECT_FALSE(life_.fin_is_due());
  life_.lanes_are_drained();
  EXPECT_TRUE(life_.fin_is_due());
  life_.fin_is_sent();
  EXPECT_FALSE(life_.fin_is_due());

  ChannelLife closed;
  closed.begin_closing();
  ASSERT_EQ(closed.begin_settling(kNow), Turn::kMine);
  closed.end_settling(/*closed=*/true, Status());
  EXPECT_TRUE(closed.fin_is_due());
}

TEST_F(Life, FinishesWhenBothHaveSaidFin) {
  close();
  life_.fin_is_sent();
  EXPECT_FALSE(life_.finish_is_due());
  life_.fin_is_received();
  EXPECT_TRUE(life_.finish_is_due());
  ASSERT_EQ(life_.begin_finishing(kNow), Turn::kMine);
  EXPECT_EQ(life_.begin_finishing(kNow), Turn::kBusy);
  life_.end_finishing(/*finished=*/true);
  EXPECT_FALSE(life_.finish_is_due());
  EXPECT_EQ(life_.begin_finishing(kNow), Turn::kOver);
}

TEST_F(Life, FinishesWithoutFinWhenThePeerAndItsReadersAreGoneButNotBeforeItCloses) {
  life_.peer_is_gone();
  life_.readers_are_gone();
  EXPECT_FALSE(life_.finish_is_due());
  close();
  EXPECT_TRUE(life_.finish_is_due());
}

TEST_F(Life, DoesNotFinishWhileForkedChildrenOfADeadPeerRead) {
  close();
  life_.peer_is_gone();
  EXPECT_FALSE(life_.finish_is_due());
  life_.readers_are_gone();
  EXPECT_TRUE(life_.finish_is_due());
}

}  // namespace
}  // namespace farwrite::device
