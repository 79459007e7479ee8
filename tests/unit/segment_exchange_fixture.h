// Two ends of a link's unix socket: an exchange, and a second one or the test itself.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <optional>
#include <thread>
#include <utility>

#include "core/wire.h"
#include "descriptors_of.h"
#include "fabric/shm/segment_exchange.h"
#include "gpu/gpu.h"

namespace farwrite::fabric::shm {

inline constexpr std::uint16_t kRequest = 16, kAnswer = 17;
inline constexpr std::chrono::seconds kHang{30};

inline core::Deadline hang() { return core::Deadline::after(kHang); }

inline std::shared_ptr<memory::Segment> make_segment(memory::SegmentUse use) {
  memory::SegmentOptions options;
  options.bytes = 8192;
  options.use = use;
  options.huge_pages = memory::HugePages::kOff;
  return memory::Segment::create(options).value();
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

  std::unique_ptr<SegmentExchange> open(core::UniqueFd socket, FindSegment find,
                                        core::UniqueFd spare = core::UniqueFd()) {
    auto exchange = std::make_unique<SegmentExchange>(
        std::move(socket), std::move(spare), *loop_, "127.0.0.1:7777", idle_time_, std::move(find),
        nullptr, [this](const Status& reason) {
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
  std::chrono::nanoseconds idle_time_ = std::chrono::hours(1);
  std::unique_ptr<SegmentExchange> near_, far_;
};

}  // namespace farwrite::fabric::shm
