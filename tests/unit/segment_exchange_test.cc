// How two sides hand each other segments over the link's unix socket.
#include "fabric/shm/segment_exchange.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "core/wire.h"
#include "gpu/gpu_memory.h"
#include "unit/gpu_fixture.h"

namespace farwrite::fabric::shm {
namespace {

constexpr std::uint16_t kRequest = 16, kAnswer = 17;
constexpr std::chrono::seconds kHang{30};

core::Deadline hang() { return core::Deadline::after(kHang); }

std::shared_ptr<memory::Segment> make_segment(memory::SegmentUse use) {
  memory::SegmentOptions options;
  options.bytes = 8192;
  options.use = use;
  options.huge_pages = memory::HugePages::kOff;
  return memory::Segment::create(options).value();
}

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

// One end of the socket is an exchange, the other one a second exchange or the test itself.
class SegmentExchanges : public testing::Test {
 protected:
  void SetUp() override {
    loop_ = core::EventLoop::start("test").value();
    int pair[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair), 0);
    near_ = open(core::UniqueFd(pair[0]), [](std::uint32_t) { return nullptr; });
    peer_ = core::UniqueFd(pair[1]);
  }

  std::unique_ptr<SegmentExchange> open(core::UniqueFd socket, FindSegment find) {
    auto exchange = std::make_unique<SegmentExchange>(
        std::move(socket), *loop_, "127.0.0.1:7777", std::move(find), [this](const Status& reason) {
          const std::lock_guard<std::mutex> lock(mutex_);
          closings_.push_back(reason);
        });
    exchange->start();
    return exchange;
  }
  // Puts an honest exchange at the other end.
  void answer_from(std::vector<std::shared_ptr<memory::Segment>> segments) {
    far_ = open(std::move(peer_), [this, segments](std::uint32_t id) {
      ++asked_;
      for (const auto& segment : segments) {
        if (segment->id() == id) return segment;
      }
      return std::shared_ptr<memory::Segment>();
    });
  }
  void put(const core::WireWriter& packet, const std::vector<int>& fds = {}) {
    ASSERT_TRUE(send_packet(peer_.get(), packet.view(), fds, hang(), "test").ok());
  }
  static void write_answer(core::WireWriter& writer, bool found, const gpu::GpuUuid* gpu,
                           std::uint64_t bytes) {
    writer.u8(found ? 1 : 0);
    writer.u8(0);
    writer.u8(gpu != nullptr ? 1 : 0);
    writer.u64(bytes);
    const gpu::GpuUuid uuid = gpu != nullptr ? *gpu : gpu::GpuUuid();
    writer.bytes({uuid.data(), uuid.size()});
  }
  static core::WireWriter answer(std::uint32_t id, const memory::Segment* segment) {
    core::WireWriter writer;
    writer.u16(kAnswer);
    writer.u32(id);
    write_answer(writer, segment != nullptr, /*gpu=*/nullptr,
                 segment != nullptr ? segment->bytes() : 0);
    return writer;
  }
  std::vector<Status> closings() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return closings_;
  }
  // What was sent before this call has been served when it returns.
  void let_the_loop_turn() {
    for (int turn = 0; turn < 2; ++turn) {
      std::promise<void> turned;
      loop_->post([&] { turned.set_value(); });
      turned.get_future().wait();
    }
  }

  std::unique_ptr<core::EventLoop> loop_;
  core::UniqueFd peer_;
  std::mutex mutex_;
  std::vector<Status> closings_;
  std::atomic<int> asked_{0};
  std::unique_ptr<SegmentExchange> near_, far_;
};

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

TEST_F(SegmentExchanges, HandOverAGpusMemoryWhileSomebodyMapsIt) {
  ASSERT_NO_FATAL_FAILURE(open_cuda_double());
  const gpu::Gpu* const gpu = gpu::Gpu::at(0).value();
  const auto segment = memory::Segment::on_gpu(gpu::GpuMemory::allocate(*gpu, 100).value(),
                                               memory::SegmentUse::kExport);
  const auto hand_over = [&] {
    auto obtained =
        std::async(std::launch::async, [&] { return near_->obtain(segment->id(), hang()); });
    (void)receive_packet(peer_.get(), hang(), "test").value();
    core::WireWriter packet;
    packet.u16(kAnswer);
    packet.u32(segment->id());
    write_answer(packet, /*found=*/true, &gpu->uuid(), segment->bytes());
    put(packet, {segment->fd()});
    return obtained.get().value();
  };
  auto mapped = hand_over();
  EXPECT_EQ(mapped->gpu(), gpu);
  EXPECT_EQ(mapped->bytes(), segment->bytes());
  EXPECT_FALSE(mapped->writable());
  EXPECT_EQ(near_->obtain(segment->id(), hang()).value(), mapped) << "the same while it is held";
  mapped.reset();
  EXPECT_NE(hand_over(), nullptr) << "asked for again";
}

TEST_F(SegmentExchanges, RefuseAGpusMemoryThatIsNone) {
  ASSERT_NO_FATAL_FAILURE(open_cuda_double());
  const gpu::GpuUuid seen = gpu::Gpu::at(0).value()->uuid();
  const gpu::GpuUuid hidden{1, 2, 3};
  const auto host = make_segment(memory::SegmentUse::kExport);
  std::uint32_t id = 7;
  for (const auto& [uuid, code] :
       {std::pair(seen, StatusCode::kProtocolError), std::pair(hidden, StatusCode::kNotFound)}) {
    auto obtained =
        std::async(std::launch::async, [&] { return near_->obtain(id, hang()).status(); });
    (void)receive_packet(peer_.get(), hang(), "test").value();
    core::WireWriter packet;
    packet.u16(kAnswer);
    packet.u32(id);
    write_answer(packet, /*found=*/true, &uuid, host->bytes());
    ASSERT_NO_FATAL_FAILURE(put(packet, {host->fd()}));
    EXPECT_EQ(obtained.get().code(), code);
    ++id;
  }
}

TEST_F(SegmentExchanges, IgnoreAnAnswerNobodyAskedForAndKeepNoDescriptor) {
  const auto segment = make_segment(memory::SegmentUse::kExport);
  const std::size_t before = open_descriptors();
  for (int i = 0; i < 20; ++i) {
    ASSERT_NO_FATAL_FAILURE(put(answer(segment->id(), segment.get()), {segment->fd()}));
  }
  // One packet a turn: the last one is served by the time this request is answered.
  core::WireWriter request;
  request.u16(kRequest);
  request.u32(1);
  ASSERT_NO_FATAL_FAILURE(put(request));
  (void)receive_packet(peer_.get(), hang(), "test").value();
  EXPECT_EQ(open_descriptors(), before);
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
