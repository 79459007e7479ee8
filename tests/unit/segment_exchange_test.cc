// How two sides hand each other segments over the link's unix socket.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <future>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "unit/segment_exchange_fixture.h"

namespace farwrite::fabric::shm {
namespace {

TEST_F(SegmentExchanges, HandOverASegmentThatIsReadOnly) {
  const auto segment = make_segment(memory::SegmentUse::kExport);
  std::memcpy(segment->base() + 100, "farwrite", 8);
  answer_from({segment});
  auto mapped = near_->obtain(segment->id(), hang());
  ASSERT_TRUE(mapped.ok()) << mapped.status().to_string();
  EXPECT_FALSE((*mapped)->writable());
  EXPECT_EQ((*mapped)->bytes(), segment->bytes());
  EXPECT_EQ(std::memcmp((*mapped)->base() + 100, "farwrite", 8), 0);
}

TEST_F(SegmentExchanges, HandOverALandingSegmentForWriting) {
  const auto segment = make_segment(memory::SegmentUse::kLanding);
  answer_from({segment});
  auto mapped = near_->obtain(segment->id(), hang());
  ASSERT_TRUE(mapped.ok()) << mapped.status().to_string();
  ASSERT_TRUE((*mapped)->writable());
  (*mapped)->mutable_base()[5] = std::byte{9};
  EXPECT_EQ(segment->base()[5], std::byte{9});
}

TEST_F(SegmentExchanges, AskForASegmentOnce) {
  const auto segment = make_segment(memory::SegmentUse::kExport);
  answer_from({segment});
  const auto first = near_->obtain(segment->id(), hang()).value();
  EXPECT_EQ(near_->obtain(segment->id(), hang()).value(), first);
  EXPECT_EQ(asked_.load(), 1);
}

TEST_F(SegmentExchanges, AskOnceForManyThreads) {
  const auto segment = make_segment(memory::SegmentUse::kExport);
  std::vector<std::future<std::shared_ptr<memory::MappedSegment>>> threads;
  for (int i = 0; i < 4; ++i) {
    threads.push_back(std::async(std::launch::async,
                                 [&] { return near_->obtain(segment->id(), hang()).value(); }));
  }
  answer_from({segment});
  const auto first = threads.front().get();
  for (std::size_t i = 1; i < threads.size(); ++i) EXPECT_EQ(threads[i].get(), first);
  EXPECT_EQ(asked_.load(), 1);
}

TEST_F(SegmentExchanges, SayThatThePeerHasNoSuchSegment) {
  answer_from({});
  const Status status = near_->obtain(77, hang()).status();
  EXPECT_EQ(status.code(), StatusCode::kNotFound) << status.to_string();
}

TEST_F(SegmentExchanges, AskAgainAfterARefusal) {
  const auto segment = make_segment(memory::SegmentUse::kExport);
  const auto obtain = [&] {
    return std::async(std::launch::async,
                      [&] { return near_->obtain(segment->id(), hang()).status(); });
  };
  auto refused = obtain();
  (void)receive_packet(peer_.get(), hang(), "test").value();
  ASSERT_NO_FATAL_FAILURE(put(answer(segment->id(), nullptr)));
  EXPECT_EQ(refused.get().code(), StatusCode::kNotFound);
  answer_from({segment});
  EXPECT_TRUE(obtain().get().ok());
}

// While it lives, this process can open no descriptor.
class NoDescriptors {
 public:
  NoDescriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    const core::UniqueFd next(::dup(0));
    const rlimit narrow{static_cast<rlim_t>(next.get()), before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &narrow), 0);
    for (int fd = ::dup(0); fd >= 0; fd = ::dup(0)) fillers_.emplace_back(fd);
  }
  ~NoDescriptors() { EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &before_), 0); }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  rlimit before_{};
  std::vector<core::UniqueFd> fillers_;
};

TEST_F(SegmentExchanges, NameTheLimitOfDescriptorsAndLiveOn) {
  const auto segment = make_segment(memory::SegmentUse::kExport);
  answer_from({segment});
  {
    const NoDescriptors none;
    const Status refused = near_->obtain(segment->id(), hang()).status();
    EXPECT_EQ(refused.code(), StatusCode::kResourceExhausted) << refused.to_string();
    EXPECT_NE(refused.message().find("ulimit -n"), std::string::npos) << refused.to_string();
  }
  EXPECT_TRUE(near_->obtain(segment->id(), hang()).ok());
  EXPECT_TRUE(closings().empty());
}

TEST_F(SegmentExchanges, GiveTheSpareDescriptorUpForTheFirstSegment) {
  const auto first = make_segment(memory::SegmentUse::kExport);
  const auto second = make_segment(memory::SegmentUse::kExport);
  near_ = nullptr;
  int pair[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
  peer_ = core::UniqueFd(pair[1]);
  near_ = open(
      core::UniqueFd(pair[0]), [](std::uint32_t) { return nullptr; }, core::UniqueFd(::dup(0)));
  answer_from({first, second});
  const NoDescriptors none;
  EXPECT_TRUE(near_->obtain(first->id(), hang()).ok());
  EXPECT_EQ(near_->obtain(second->id(), hang()).status().code(), StatusCode::kResourceExhausted);
  EXPECT_TRUE(near_->obtain(first->id(), hang()).ok());
  EXPECT_TRUE(closings().empty());
}

TEST_F(SegmentExchanges, SendARequestOfSixBytes) {
  EXPECT_EQ(near_->obtain(0x01020304, core::Deadline::after({})).status().code(),
            StatusCode::kDeadlineExceeded);
  const Packet packet = receive_packet(peer_.get(), hang(), "test").value();
  core::WireWriter expected;
  expected.u16(kRequest);
  expected.u32(0x01020304);
  EXPECT_EQ(packet.bytes, expected.buffer());
}

TEST_F(SegmentExchanges, TakeALateAnswerWithoutAskingAgain) {
  const auto segment = make_segment(memory::SegmentUse::kExport);
  ASSERT_EQ(near_->obtain(segment->id(), core::Deadline::after({})).status().code(),
            StatusCode::kDeadlineExceeded);
  (void)receive_packet(peer_.get(), hang(), "test").value();
  ASSERT_NO_FATAL_FAILURE(put(answer(segment->id(), segment.get()), {segment->fd()}));
  EXPECT_TRUE(near_->obtain(segment->id(), hang()).ok());
  EXPECT_EQ(receive_packet(peer_.get(), core::Deadline::after({}), "test").status().code(),
            StatusCode::kDeadlineExceeded)
      << "no second request";
}

TEST_F(SegmentExchanges, RefuseADescriptorThatIsNoSealedMemory) {
  auto obtained = std::async(std::launch::async, [&] { return near_->obtain(5, hang()).status(); });
  (void)receive_packet(peer_.get(), hang(), "test").value();
  core::WireWriter packet;
  packet.u16(kAnswer);
  packet.u32(5);
  write_answer(packet, /*found=*/true, /*gpu=*/nullptr, 4096);
  ASSERT_NO_FATAL_FAILURE(put(packet, {peer_.get()}));
  EXPECT_EQ(obtained.get().code(), StatusCode::kProtocolError);
}

TEST_F(SegmentExchanges, IgnoreAnAnswerNobodyAskedForAndKeepNoDescriptor) {
  const auto segment = make_segment(memory::SegmentUse::kExport);
  for (int i = 0; i < 20; ++i) {
    ASSERT_NO_FATAL_FAILURE(put(answer(segment->id(), segment.get()), {segment->fd()}));
  }
  // One packet a turn: the last one is served by the time this request is answered.
  core::WireWriter request;
  request.u16(kRequest);
  request.u32(1);
  ASSERT_NO_FATAL_FAILURE(put(request));
  (void)receive_packet(peer_.get(), hang(), "test").value();
  EXPECT_EQ(descriptors_of(segment->fd()), 1U);
  EXPECT_TRUE(closings().empty());
}

TEST_F(SegmentExchanges, EndAWaitWhenThePeerCloses) {
  auto obtained = std::async(std::launch::async,
                             [&] { return near_->obtain(5, core::Deadline::never()).status(); });
  (void)receive_packet(peer_.get(), hang(), "test").value();
  peer_.reset();
  EXPECT_EQ(obtained.get().code(), StatusCode::kUnavailable);
  let_the_loop_turn();
  ASSERT_EQ(closings().size(), 1U) << "told once";
  EXPECT_EQ(closings().front().code(), StatusCode::kUnavailable);
}

TEST_F(SegmentExchanges, EndAWaitWhenTold) {
  auto obtained = std::async(std::launch::async,
                             [&] { return near_->obtain(5, core::Deadline::never()).status(); });
  (void)receive_packet(peer_.get(), hang(), "test").value();
  near_->fail(Status(StatusCode::kPeerDead, "the peer's process is gone"));
  EXPECT_EQ(obtained.get().code(), StatusCode::kPeerDead);
  EXPECT_EQ(near_->obtain(6, core::Deadline::never()).status().code(), StatusCode::kPeerDead)
      << "and every later one";
}

TEST_F(SegmentExchanges, EndWithAPeerThatSendsGarbage) {
  auto obtained = std::async(std::launch::async,
                             [&] { return near_->obtain(5, core::Deadline::never()).status(); });
  (void)receive_packet(peer_.get(), hang(), "test").value();
  core::WireWriter garbage;
  garbage.u64(0xdeadbeefdeadbeef);
  ASSERT_NO_FATAL_FAILURE(put(garbage));
  EXPECT_EQ(obtained.get().code(), StatusCode::kProtocolError);
  let_the_loop_turn();
  ASSERT_EQ(closings().size(), 1U);
  EXPECT_EQ(closings().front().code(), StatusCode::kProtocolError);
}

TEST_F(SegmentExchanges, EndWithAPeerThatNeverReadsItsAnswers) {
  core::WireWriter request;
  request.u16(kRequest);
  request.u32(1);
  const core::Deadline end = hang();
  // Each answer takes room in the peer's socket, until nothing fits any more.
  while (closings().empty() && !end.expired()) {
    (void)send_packet(peer_.get(), request.view(), {}, core::Deadline::after({}), "test");
  }
  ASSERT_EQ(closings().size(), 1U);
  EXPECT_EQ(closings().front().code(), StatusCode::kProtocolError);
}

TEST_F(SegmentExchanges, LeaveAMappingBehindWhenTheyGo) {
  const auto segment = make_segment(memory::SegmentUse::kExport);
  segment->base()[0] = std::byte{3};
  answer_from({segment});
  const auto mapped = near_->obtain(segment->id(), hang()).value();
  near_.reset();
  far_.reset();
  EXPECT_EQ(mapped->base()[0], std::byte{3});
}

}  // namespace
}  // namespace farwrite::fabric::shm
