// Two links in one process: what they deliver, and what a spoilt mailbox does to them.
#include <poll.h>

#include <chrono>
#include <cstring>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "unit/shm_link_fixture.h"

namespace farwrite::fabric::shm {
namespace {

TEST_F(ShmLinks, LandAWriteBeforeItsNotification) {
  ASSERT_NO_FATAL_FAILURE(land());
  const Completion written = write({"farwrite", 8}, 16, 42);
  EXPECT_TRUE(written.done());
  EXPECT_TRUE(written.wait().ok()) << written.wait().to_string();
  EXPECT_EQ(poll(far()).delivered, 1U);
  ASSERT_EQ(far().sink.taken.size(), 1U);
  EXPECT_EQ(far().sink.taken[0].tag, 42U);
  EXPECT_EQ(far().sink.taken[0].lane, 0U);
  EXPECT_EQ(std::memcmp(landing_->base() + 4096 + 16, "farwrite", 8), 0);
  EXPECT_EQ(near().link->counters().copies, 1U);
}

TEST_F(ShmLinks, ReadAndMapWhatThePeerExports) {
  const auto segment = link_segment(memory::SegmentUse::kExport);
  std::memcpy(segment->base() + 4096 + 8, "exported", 8);
  far().exports.push_back(segment);
  const auto window =
      near()
          .link->import(describe(GrantKey{segment->id(), 0}.pack(), Access::kRead), link_hang())
          .value();
  EXPECT_EQ(window->length, 1024U);
  EXPECT_EQ(std::memcmp(window->mapped + 8, "exported", 8), 0);
  std::byte copy[8];
  Operation read;
  read.kind = OperationKind::kRead;
  read.destination = {copy, sizeof(copy)};
  read.offset = 8;
  read.window = window;
  EXPECT_TRUE(near().link->lane(0).post(read).wait().ok());
  EXPECT_EQ(std::memcmp(copy, "exported", 8), 0);
}

TEST_F(ShmLinks, FlushAtOnce) {
  Operation flush;
  flush.kind = OperationKind::kFlush;
  const Completion flushed = near().link->lane(0).post(flush);
  EXPECT_TRUE(flushed.done());
  EXPECT_TRUE(flushed.wait().ok());
}

TEST_F(ShmLinks, RefuseAWriteToARevokedRegion) {
  ASSERT_NO_FATAL_FAILURE(land());
  landing_->base()[4096] = std::byte{5};
  ASSERT_TRUE(far().link->revoke(key_, 1, link_hang()).ok());
  EXPECT_EQ(write({"x", 1}, 0).wait().code(), StatusCode::kFailedPrecondition);
  EXPECT_EQ(landing_->base()[4096], std::byte{5});
}

TEST_F(ShmLinks, RefuseDescriptorsThatDoNotFitThePeersMemory) {
  const auto segment = link_segment(memory::SegmentUse::kExport);
  far().exports.push_back(segment);
  const std::uint64_t key = GrantKey{segment->id(), 0}.pack();
  const auto refusal = [&](const RegionDescriptor& descriptor) {
    return near().link->import(descriptor, link_hang()).status().code();
  };
  RegionDescriptor descriptor = describe(key, Access::kRead);
  descriptor.length = kBytes - 4096 + 1;
  EXPECT_EQ(refusal(descriptor), StatusCode::kOutOfRange);
  descriptor.offset = kBytes + 1;
  descriptor.length = 0;
  EXPECT_EQ(refusal(descriptor), StatusCode::kOutOfRange);
  EXPECT_EQ(refusal(describe(key, Access::kWrite)), StatusCode::kPermissionDenied);
  EXPECT_EQ(refusal(describe(GrantKey{0xffffffff, 0}.pack(), Access::kRead)),
            StatusCode::kNotFound);
  descriptor.keys = {{FabricKind::kTcp, key}};
  EXPECT_EQ(refusal(descriptor), StatusCode::kUnavailable);
}

TEST_F(ShmLinks, RefuseARowThatTheMailboxDoesNotHave) {
  ASSERT_NO_FATAL_FAILURE(land());
  GrantKey key = GrantKey::unpack(key_);
  key.row = near().peer_mailbox.geometry().rows;
  EXPECT_EQ(near().link->import(describe(key.pack(), Access::kWrite), link_hang()).status().code(),
            StatusCode::kPermissionDenied);
}

TEST_F(ShmLinks, RefuseTheLandingSegmentOfAnotherLink) {
  ASSERT_NO_FATAL_FAILURE(land());
  Pair other(*loop_, 1);
  EXPECT_EQ(other.near.link->import(describe(key_, Access::kWrite), link_hang()).status().code(),
            StatusCode::kNotFound);
}

TEST_F(ShmLinks, CarryMessagesUpToTheLargest) {
  const std::uint64_t largest = max_payload(near().peer_mailbox.geometry().cells);
  for (const std::uint64_t bytes : {std::uint64_t{1}, std::uint64_t{5000}, largest}) {
    const std::vector<std::byte> message(bytes, static_cast<std::byte>(bytes));
    ASSERT_TRUE(send(near(), message, 3).wait().ok());
    ASSERT_EQ(poll(far()).delivered, 1U);
    EXPECT_EQ(far().sink.taken.back().message, message);
    EXPECT_EQ(far().sink.taken.back().tag, 3U);
  }
}

TEST_F(ShmLinks, KeepLanesApart) {
  ASSERT_TRUE(notify(near(), 7, 1).wait().ok());
  EXPECT_EQ(poll(far(), 0).delivered, 0U);
  EXPECT_EQ(poll(far(), 1).delivered, 1U);
  EXPECT_EQ(far().sink.taken.back().lane, 1U);
}

TEST_F(ShmLinks, DeliverABacklogInOrderOnceThereIsRoom) {
  const std::vector<Completion> posted = overfill(3000);
  EXPECT_FALSE(posted.back().done());
  EXPECT_EQ(near().link->counters().backlogged, 3000U);
  for (int round = 0; round < 1000 && far().sink.taken.size() < posted.size(); ++round) {
    poll(far());
    poll(near());  // moves the backlog on
  }
  ASSERT_EQ(far().sink.taken.size(), posted.size());
  for (std::size_t i = 0; i < posted.size(); ++i) ASSERT_EQ(far().sink.taken[i].tag, i);
  for (const Completion& each : posted) ASSERT_TRUE(each.done() && each.wait().ok());
  EXPECT_FALSE(poll(near()).pending);
}

TEST_F(ShmLinks, SayThatABacklogIsPending) {
  overfill(1);
  EXPECT_TRUE(poll(near()).pending);
}

// Or a poller would sleep while the room comes: the code that has the lane may have looked already.
TEST_F(ShmLinks, SayThatABacklogIsPendingWhileAnotherThreadPolls) {
  (void)notify(far(), 0);
  Progress meanwhile;
  near().sink.during = [&] {
    (void)overfill(1);
    meanwhile = std::async(std::launch::async, [&] { return poll(near()); }).get();
  };
  EXPECT_EQ(poll(near()).delivered, 1U);
  EXPECT_EQ(meanwhile.delivered, 0U);
  EXPECT_TRUE(meanwhile.pending);
}

TEST_F(ShmLinks, RefuseMoreThanABacklogHolds) {
  const std::vector<Completion> posted = overfill((1 << 16) + 1);
  EXPECT_FALSE(posted[posted.size() - 2].done());
  EXPECT_EQ(posted.back().wait(std::chrono::nanoseconds(0)).code(), StatusCode::kResourceExhausted);
}

TEST_F(ShmLinks, CancelTheirBacklogAtTheEnd) {
  const std::vector<Completion> posted = overfill(1);
  near().link.reset();
  ASSERT_TRUE(posted.back().done());
  EXPECT_EQ(posted.back().wait().code(), StatusCode::kCancelled);
  EXPECT_TRUE(posted.back().settled());
}

TEST_F(ShmLinks, ArePoisonedByAMalformedRecord) {
  ASSERT_NO_FATAL_FAILURE(spoil_far_ring());
  EXPECT_EQ(poll(far()).delivered, 0U);
  EXPECT_EQ(poll(far()).delivered, 0U);
  EXPECT_EQ(far().observer.error_count(), 1U) << "told once";
  EXPECT_EQ(far().observer.errors.front().code(), StatusCode::kProtocolError);
  EXPECT_EQ(notify(far(), 1).wait().code(), StatusCode::kProtocolError);
  EXPECT_EQ(near().observer.error_count(), 0U);
}

TEST_F(ShmLinks, AskForNoMorePollingOfASpoiltRing) {
  ASSERT_NO_FATAL_FAILURE(spoil_far_ring());
  poll(far());
  EXPECT_FALSE(poll(far()).pending);
  EXPECT_FALSE(far().link->lane(0).arm().ready) << "its poller would spin for ever";
}

TEST_F(ShmLinks, ArePoisonedByACorruptHead) {
  for (std::size_t i = 0; i < near().peer_mailbox.geometry().cells; ++i) {
    ASSERT_TRUE(notify(near(), 0).wait().ok());
  }
  near().peer_mailbox.control(0).head.store(std::uint64_t{1} << 40);
  EXPECT_EQ(notify(near(), 0).wait().code(), StatusCode::kProtocolError);
  EXPECT_EQ(near().observer.error_count(), 1U);
}

TEST_F(ShmLinks, EndABacklogThatACorruptHeadHoldsUp) {
  const std::vector<Completion> posted = overfill(2);
  near().peer_mailbox.control(0).head.store(std::uint64_t{1} << 40);
  EXPECT_FALSE(poll(near()).pending);
  ASSERT_TRUE(posted.back().done());
  EXPECT_EQ(posted.back().wait().code(), StatusCode::kProtocolError);
  EXPECT_EQ(near().observer.error_count(), 1U);
}

TEST_F(ShmLinks, EndTheirBacklogWhenPoisoned) {
  const std::vector<Completion> posted = overfill(2);
  (void)notify(far(), 0);
  near().own_mailbox.cells(0)->kind = static_cast<RecordKind>(99);
  poll(near());
  ASSERT_TRUE(posted.back().done());
  EXPECT_EQ(posted.back().wait().code(), StatusCode::kProtocolError);
}

TEST_F(ShmLinks, LetOneThreadPollALaneAtATime) {
  ASSERT_TRUE(notify(near(), 1).wait().ok());
  ASSERT_TRUE(notify(near(), 2).wait().ok());
  Sink second;
  std::size_t delivered_meanwhile = 99;
  bool ready_meanwhile = false;
  far().sink.during = [&] {
    std::thread([&] {
      delivered_meanwhile = far().link->lane(0).poll(second).delivered;
      ready_meanwhile = far().link->lane(0).arm().ready;
    }).join();
  };
  EXPECT_EQ(poll(far()).delivered, 2U);
  EXPECT_EQ(delivered_meanwhile, 0U);
  EXPECT_TRUE(second.taken.empty());
  EXPECT_TRUE(ready_meanwhile) << "nobody sleeps while another thread delivers";
}

TEST_F(ShmLinks, DeliverEverythingOnceToManyPollers) {
  constexpr std::uint32_t kCount = 20'000;
  struct CountingSink final : EventSink {
    void on_notification(Notification&& notification) override {
      sum += notification.tag;
      ++count;
    }
    std::uint64_t sum = 0, count = 0;
  };
  std::atomic<std::uint64_t> taken{0};
  std::vector<CountingSink> sinks(3);
  std::vector<std::thread> pollers;
  for (CountingSink& sink : sinks) {
    pollers.emplace_back([&] {
      while (taken.load() < kCount) {
        taken.fetch_add(far().link->lane(0).poll(sink).delivered);
        std::this_thread::yield();
      }
    });
  }
  std::vector<Completion> posted;
  for (std::uint32_t tag = 1; tag <= kCount; ++tag) posted.push_back(notify(near(), tag));
  while (poll(near()).pending) std::this_thread::yield();
  for (std::thread& poller : pollers) poller.join();
  std::uint64_t sum = 0, count = 0;
  for (const CountingSink& sink : sinks) {
    sum += sink.sum;
    count += sink.count;
  }
  EXPECT_EQ(count, kCount);
  EXPECT_EQ(sum, std::uint64_t{kCount} * (kCount + 1) / 2);
}

TEST_F(ShmLinks, RingOnlyForAReceiverThatSleeps) {
  ASSERT_TRUE(notify(near(), 1).wait().ok());
  EXPECT_EQ(near().link->counters().doorbells, 0U);
  poll(far());
  const Doorbell doorbell = far().link->lane(0).arm();
  EXPECT_FALSE(doorbell.ready);
  pollfd entry{doorbell.fd, POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
  ASSERT_TRUE(notify(near(), 2).wait().ok());
  ASSERT_TRUE(notify(near(), 3).wait().ok());
  EXPECT_EQ(::poll(&entry, 1, 0), 1);
  EXPECT_EQ(near().link->counters().doorbells, 1U) << "one ring for one sleep";
}

TEST_F(ShmLinks, TakeBackEarlierRingsWhenArming) {
  const Doorbell doorbell = far().link->lane(0).arm();
  ASSERT_TRUE(notify(near(), 1).wait().ok());
  EXPECT_TRUE(far().link->lane(0).arm().ready) << "it has news";
  poll(far());
  EXPECT_FALSE(far().link->lane(0).arm().ready);
  pollfd entry{doorbell.fd, POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0) << "a sleeper would wake for nothing, for ever";
}

TEST_F(ShmLinks, ReportTheEndOfASameProcessPeerThroughTheChannelOnly) {
  far().link.reset();
  EXPECT_EQ(near().link->import(describe(1, Access::kRead), link_hang()).status().code(),
            StatusCode::kUnavailable);
  EXPECT_TRUE(near().observer.deaths.empty()) << "the process lives";
  EXPECT_TRUE(notify(near(), 1).wait().ok());
}

}  // namespace
}  // namespace farwrite::fabric::shm
