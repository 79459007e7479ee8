// How edges end: by the receiver, by the sender, with the channel, or because the peer is no peer.
#include "conformance/tensor_fixture.h"

namespace farwrite {
namespace {

class TensorEnds : public Tensors {
 protected:
  // Opens an edge, and takes all that is sent on it.
  void move_six(Edge& edge) {
    const TensorSpec spec = bytes_spec({3000});
    edge = open_edge("whole", static_edge(spec));
    ASSERT_TRUE(edge.sender.valid());
    for (std::uint32_t step = 1; step <= 6; ++step) {
      ASSERT_OK(send(edge.sender, spec, step));
      ASSERT_TRUE(take(edge.receiver, spec, step).valid());
    }
  }
};

TEST_P(TensorEnds, WhatWasSentIsReceivedAfterTheSenderHasClosed) {
  const TensorSpec spec = bytes_spec({1000});
  Edge edge = open_edge("sender", static_edge(spec));
  ASSERT_TRUE(edge.sender.valid());
  for (std::uint32_t step = 1; step <= 5; ++step) ASSERT_OK(send(edge.sender, spec, step));
  const Status waits = edge.sender.close(std::chrono::milliseconds(20));
  EXPECT_CODE(kDeadlineExceeded, waits);
  EXPECT_NE(waits.message().find("\"sender\" took 0 of 5 tensors"), std::string::npos)
      << waits.message();
  EXPECT_CODE(kFailedPrecondition, send(edge.sender, spec, 6));
  for (std::uint32_t step = 1; step <= 5; ++step) {
    EXPECT_TRUE(take(edge.receiver, spec, step).valid());
  }
  const Status over = edge.receiver.receive(kHang).status();
  EXPECT_CODE(kEndOfStream, over);
  EXPECT_NE(over.message().find("\"sender\" has closed after 5 tensors"), std::string::npos)
      << over.message();
  EXPECT_CODE(kEndOfStream, edge.receiver.try_receive().status());
  ASSERT_OK(edge.sender.close(kHang));
  ASSERT_OK(edge.sender.close(kHang));
}

TEST_P(TensorEnds, ClosingASenderWaitsUntilEverythingIsTaken) {
  const TensorSpec spec = bytes_spec({5000});
  for (const bool has_slots : {true, false}) {
    SCOPED_TRACE(has_slots);
    Edge edge = open_edge(has_slots ? "static" : "dynamic",
                          has_slots ? static_edge(spec) : ReceiverOptions());
    ASSERT_TRUE(edge.sender.valid());
    for (std::uint32_t step = 1; step <= 4; ++step) ASSERT_OK(send(edge.sender, spec, step));
    auto closing = std::async(std::launch::async, [&] { return edge.sender.close(kHang); });
    std::vector<ReceivedTensor> kept;  // to take is enough
    for (std::uint32_t step = 1; step <= 4; ++step) {
      EXPECT_EQ(closing.wait_for(std::chrono::milliseconds(5)), std::future_status::timeout);
      kept.push_back(take(edge.receiver, spec, step));
    }
    EXPECT_OK(closing.get());
    EXPECT_CODE(kEndOfStream, edge.receiver.receive(kHang).status());
  }
}

TEST_P(TensorEnds, ClosingNeedsNoFurtherCallOfAReceiverThatHasEverything) {
  const TensorSpec spec = bytes_spec({3000});
  for (const bool has_slots : {true, false}) {
    SCOPED_TRACE(has_slots);
    Edge edge = open_edge(has_slots ? "static" : "dynamic",
                          has_slots ? static_edge(spec) : ReceiverOptions());
    ASSERT_TRUE(edge.sender.valid());
    std::vector<ReceivedTensor> kept;
    for (std::uint32_t step = 1; step <= 6; ++step) {
      ASSERT_OK(send(edge.sender, spec, step));
      kept.push_back(take(edge.receiver, spec, step));
    }
    EXPECT_OK(edge.sender.close(kHang));
  }
}

TEST_P(TensorEnds, TheEndIsKnownAlsoBehindTheEndOfTheChannel) {
  const TensorSpec spec = bytes_spec({3000});
  Edge edge = open_edge("all", static_edge(spec));
  Edge empty = open_edge("empty", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid() && empty.sender.valid());
  ASSERT_OK(send(edge.sender, spec, 1));
  ASSERT_TRUE(take(edge.receiver, spec, 1).valid());
  ASSERT_OK(edge.sender.close(kHang)) << "the receiver need not wait for the end";
  ASSERT_OK(empty.sender.close(kHang));
  ASSERT_OK(near_.close(kHang));
  EXPECT_CODE(kEndOfStream, edge.receiver.receive(kHang).status());
  EXPECT_CODE(kEndOfStream, empty.receiver.receive(kHang).status());
}

TEST_P(TensorEnds, AReceiverThatClosesEarlyIsToldToTheSenderWithTheNumber) {
  const TensorSpec spec = bytes_spec({3000});
  Edge edge = open_edge("early", static_edge(spec, 5));
  ASSERT_TRUE(edge.sender.valid());
  for (std::uint32_t step = 1; step <= 5; ++step) ASSERT_OK(send(edge.sender, spec, step));
  for (std::uint32_t step = 1; step <= 2; ++step) {
    ASSERT_TRUE(take(edge.receiver, spec, step).valid());
  }
  ASSERT_OK(edge.receiver.close(kHang));
  const Status closed = edge.sender.close(kHang);
  EXPECT_CODE(kUnavailable, closed);
  EXPECT_NE(closed.message().find("\"early\" took 2 of 5 tensors and closed"), std::string::npos)
      << closed.message();
  EXPECT_OK(edge.sender.close(kHang)) << "it was told";
}

// The receiver is not closed itself, as in a program whose last block ends with the channel's.
TEST_P(TensorEnds, AReceiverThatHasHeardTheEndMayCloseItsChannel) {
  Edge edge;
  ASSERT_NO_FATAL_FAILURE(move_six(edge));
  auto closing = std::async(std::launch::async, [&] { return edge.sender.close(kHang); });
  EXPECT_CODE(kEndOfStream, edge.receiver.receive(kHang).status());
  ASSERT_OK(far_.close(kHang));
  EXPECT_OK(closing.get());
}

TEST_P(TensorEnds, AReceiverThatHasEverythingMayCloseItsChannelBeforeTheSender) {
  Edge edge;
  ASSERT_NO_FATAL_FAILURE(move_six(edge));
  ASSERT_OK(far_.close(kHang));
  EXPECT_OK(edge.sender.close(kHang));
}

TEST_P(TensorEnds, WhatAResetDropsIsNotWaitedFor) {
  const TensorSpec spec = bytes_spec({3000});
  Edge edge = open_edge("reset", static_edge(spec));
  ASSERT_TRUE(edge.sender.valid());
  for (std::uint32_t step = 1; step <= 4; ++step) ASSERT_OK(send(edge.sender, spec, step));
  ASSERT_TRUE(take(edge.receiver, spec, 1).valid());
  ASSERT_OK(edge.receiver.reset());
  auto closing = std::async(std::launch::async, [&] { return edge.sender.close(kHang); });
  EXPECT_CODE(kEndOfStream, edge.receiver.receive(kHang).status());
  EXPECT_OK(closing.get());
}

TEST_P(TensorEnds, AClosingSenderHearsOfTheEndOfItsChannel) {
  const TensorSpec spec = bytes_spec({3000});
  Edge edge = open_edge("lost", static_edge(spec));
  ASSERT_TRUE(edge.sender.valid());
  ASSERT_OK(send(edge.sender, spec, 1));
  auto closing = std::async(std::launch::async, [&] { return edge.sender.close(kForever); });
  ASSERT_OK(far_.close(kHang));
  const Status closed = closing.get();
  EXPECT_CODE(kUnavailable, closed);
  EXPECT_NE(closed.message().find("took 0 of 1 tensors"), std::string::npos) << closed.message();
}

TEST_P(TensorEnds, ASenderThatIsDroppedAbandonsTheStream) {
  for (const bool dropped : {true, false}) {
    SCOPED_TRACE(dropped);
    Edge edge = open_edge(dropped ? "dropped" : "abandoned", ReceiverOptions());
    ASSERT_TRUE(edge.sender.valid());
    ASSERT_OK(send(edge.sender, bytes_spec({8}), 1));
    if (dropped) {
      edge.sender = TensorSender();
    } else {
      ASSERT_OK(edge.sender.abandon());
      ASSERT_OK(edge.sender.close(kHang));
    }
    EXPECT_TRUE(take(edge.receiver, bytes_spec({8}), 1).valid());
    const Status over = edge.receiver.receive(kHang).status();
    EXPECT_CODE(kUnavailable, over);
    EXPECT_NE(over.message().find("abandoned the stream after 1 tensor,"), std::string::npos)
        << over.message();
  }
}

TEST_P(TensorEnds, AfterTheReceiverHasClosedSendingFailsAndTheNameIsFree) {
  const TensorSpec spec = bytes_spec({1000});
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    Edge edge = open_edge("again", static_edge(spec));
    ASSERT_TRUE(edge.sender.valid());
    ASSERT_OK(send(edge.sender, spec, 1));
    ASSERT_TRUE(take(edge.receiver, spec, 1).valid());
    ASSERT_OK(edge.receiver.close(kHang));
    EXPECT_CODE(kCancelled, edge.receiver.receive(kHang).status());
    EXPECT_CODE(kFailedPrecondition, edge.receiver.reset());
    Status refused;
    EXPECT_TRUE(eventually([&] {
      refused = send(edge.sender, spec, 2);
      return refused.code() == StatusCode::kUnavailable;
    })) << refused.to_string();
  }
}

TEST_P(TensorEnds, ASenderWaitsForAnEdgeThatIsOpenedAgain) {
  Edge edge = open_edge("reopened", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid());
  auto again = std::async(std::launch::async, [&] {
    return TensorSender::open(near_device_, near_, "reopened", kHang);
  });
  // What says that the edge is closed, and open again, may be on its way when the sender looks.
  EXPECT_EQ(again.wait_for(std::chrono::milliseconds(20)), std::future_status::timeout);
  ASSERT_OK(edge.receiver.close(kHang));
  auto receiver = TensorReceiver::open(far_, "reopened", ReceiverOptions());
  ASSERT_OK(receiver);
  auto sender = again.get();
  ASSERT_OK(sender);
  ASSERT_OK(send(*sender, bytes_spec({8}), 1));
  EXPECT_TRUE(take(*receiver, bytes_spec({8}), 1).valid());
}

TEST_P(TensorEnds, ClosingAReceiverEndsItsWaiters) {
  Edge edge = open_edge("waiters", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid());
  std::vector<std::future<Status>> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.push_back(
        std::async(std::launch::async, [&] { return edge.receiver.receive(kForever).status(); }));
  }
  ASSERT_OK(edge.receiver.close(kHang));
  for (auto& waiter : waiters) EXPECT_CODE(kCancelled, waiter.get());
}

TEST_P(TensorEnds, WithTheChannelEveryEdgeEndsAfterWhatHasArrived) {
  const TensorSpec spec = bytes_spec({5000});
  Edge pushed = open_edge("pushed", static_edge(spec));
  Edge offered = open_edge("offered", ReceiverOptions());
  ASSERT_TRUE(pushed.sender.valid() && offered.sender.valid());
  ASSERT_OK(send(pushed.sender, spec, 1));
  ASSERT_OK(send(offered.sender, spec, 2));
  std::promise<void> received;
  auto waiting = std::async(std::launch::async, [&] {
    EXPECT_TRUE(take(offered.receiver, spec, 2).valid());
    received.set_value();
    return offered.receiver.receive(kForever).status();
  });
  received.get_future().wait();  // where it has to be read, that needs the peer
  ASSERT_OK(near_.close(kHang));
  EXPECT_CODE(kUnavailable, waiting.get());
  EXPECT_TRUE(take(pushed.receiver, spec, 1).valid());
  const Status ended = pushed.receiver.receive(kHang).status();
  EXPECT_CODE(kUnavailable, ended);
  EXPECT_NE(ended.message().find("\"pushed\" broke off after 1 tensor:"), std::string::npos)
      << ended.message();
  EXPECT_CODE(kCancelled, send(pushed.sender, spec, 3));
}

TEST_P(TensorEnds, ARecordThatIsNoneEndsEveryEdgeWithAProtocolError) {
  struct Forged {
    std::uint32_t tag;
    std::string message;
  };
  const std::vector<Forged> forged = {
      {7, ""},                             // none of ours
      {0xf1000001, "too short"},           // an edge
      {0xf1000002, std::string(8, '\0')},  // no slots of an unknown edge
      {0xf1000003, std::string(64, '\1')},
      {0xf1000005, std::string(200, '\xff')},
      {0xf1000006, std::string(9, '\0')},
      {0xf1000099, "unknown"},
  };
  for (const Forged& record : forged) {
    SCOPED_TRACE(record.tag);
    ChannelPair pair = connect(near_device_, far_device_);
    auto receiver = TensorReceiver::open(pair.far, "edge", static_edge(bytes_spec({8})));
    ASSERT_OK(receiver);
    ASSERT_OK(
        pair.near.send({record.message.data(), record.message.size()}, record.tag).wait(kHang));
    EXPECT_CODE(kProtocolError, receiver->receive(kHang).status());
    EXPECT_CODE(kProtocolError, receiver->try_receive().status()) << "and stays so";
    EXPECT_CODE(kProtocolError,
                TensorReceiver::open(pair.far, "later", ReceiverOptions()).status());
    // What the receiver announced comes first; then the near side is told of the end, and why.
    Result<Notification> next = pair.near.wait_notification(kHang);
    while (next.ok()) next = pair.near.wait_notification(kHang);
    EXPECT_CODE(kProtocolError, next.status());
  }
}

TEST_P(TensorEnds, ALandingWithoutATensorIsDroppedAndItsSlotGrantedAgain) {
  const TensorSpec spec = bytes_spec({8});
  Edge edge = open_edge("forged landing", static_edge(spec));
  ASSERT_TRUE(edge.sender.valid());
  ASSERT_OK(near_.notify(0xf0ffffff).wait(kHang));  // of no slot
  ASSERT_OK(near_.notify(0xf0000000).wait(kHang));  // of a slot that nothing was written into
  ASSERT_TRUE(eventually([&] {
    EXPECT_OK(edge.receiver.try_receive());
    return edge.receiver.stats().dropped_malformed == 1;
  }));
  EXPECT_EQ(edge.receiver.stats().slots_granted, 2U);
  expect_balance(edge.receiver);
}

TEST_P(TensorEnds, AHandlerOfTheUserIsAnErrorAndNoHang) {
  Edge edge = open_edge("handler", ReceiverOptions());
  ASSERT_TRUE(edge.sender.valid());
  ASSERT_OK(far_.on_notification([](const Notification&) {}));
  EXPECT_CODE(kFailedPrecondition, edge.receiver.receive(kHang).status());
  ASSERT_OK(far_.on_notification(nullptr));
  ASSERT_OK(send(edge.sender, bytes_spec({8}), 1));
  EXPECT_TRUE(take(edge.receiver, bytes_spec({8}), 1).valid());
}

FARWRITE_EVERY_FABRIC(TensorEnds);

}  // namespace
}  // namespace farwrite
