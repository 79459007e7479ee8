// The packets by which two processes hand each other segments, with any descriptors.
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <utility>

#include "core/wire.h"
#include "fabric/shm/segment_exchange.h"
#include "peer_files.h"
#include "target.h"

namespace farwrite::fuzz {
namespace {

using fabric::shm::SegmentExchange;

constexpr std::uint32_t kOurSegment = 7;
constexpr std::uint16_t kRequest = 16, kAnswer = 17;
constexpr int kMostPackets = 24;

core::EventLoop& loop() {
  static const std::unique_ptr<core::EventLoop> one = core::EventLoop::start("fuzz").value();
  return *one;
}

std::shared_ptr<memory::Segment> our_segment() {
  static const auto segment = [] {
    memory::SegmentOptions options;
    options.bytes = kPageBytes;
    options.huge_pages = memory::HugePages::kOff;
    return memory::Segment::create(options).value();
  }();
  return segment;
}

// {u8 descriptors, their kinds, u8 length, bytes}; false when the socket takes no more.
bool send_next(Script& script, int socket) {
  std::vector<std::uint8_t> kinds(script.u8() % 3);
  for (std::uint8_t& kind : kinds) kind = script.u8();
  std::vector<int> numbers;
  const std::vector<core::UniqueFd> fds = open_peer_files(kinds);
  for (const core::UniqueFd& fd : fds) numbers.push_back(fd.get());
  const ByteView bytes = script.bytes(script.u8());
  return fabric::shm::send_packet(socket, bytes, numbers, core::Deadline::after({}), "fuzz").ok();
}

void check(SegmentExchange& exchange, std::uint32_t id) {
  auto mapped = exchange.obtain(id, core::Deadline::after({}));
  if (!mapped.ok()) {
    require(!mapped.status().message().empty(), "a refusal says why");
    return;
  }
  const memory::MappedSegment& segment = **mapped;
  require(segment.bytes() > 0, "a segment has bytes");
  // Its first and last byte can be read: whatever the peer does to its file, they stay.
  const volatile std::byte* base = segment.base();
  (void)base[0];
  (void)base[segment.bytes() - 1];
}

void run(ByteView input) {
  Script script(input);
  int pair[2];
  require(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0,
          "the test has a socket pair");
  core::UniqueFd near(pair[0]);
  const core::UniqueFd far(pair[1]);
  std::promise<Status> closed;
  std::atomic<int> closings{0};
  SegmentExchange exchange(
      std::move(near), core::UniqueFd(), loop(), "the peer", std::chrono::seconds(1),
      [](std::uint32_t id) { return id == kOurSegment ? our_segment() : nullptr; }, nullptr,
      [&](const Status& reason) {
        if (closings.fetch_add(1) == 0) closed.set_value(reason);
      });
  std::vector<std::uint32_t> asked(script.u8() % 4);
  for (std::uint32_t& id : asked) {
    id = script.u8();
    check(exchange, id);  // asks, and does not wait
  }
  for (int sent = 0; sent < kMostPackets && !script.empty(); ++sent) {
    if (!send_next(script, far.get())) break;
  }
  (void)::shutdown(far.get(), SHUT_WR);
  exchange.start();
  const Status reason = closed.get_future().get();
  require(reason.code() == StatusCode::kProtocolError || reason.code() == StatusCode::kUnavailable,
          "the end is the peer's leaving or its fault: " + reason.to_string());
  require(!reason.message().empty(), "an end says why");
  for (const std::uint32_t id : asked) check(exchange, id);
  // The loop is past everything that the exchange gave it when this has run.
  std::promise<void> turned;
  loop().post([&] { turned.set_value(); });
  turned.get_future().wait();
  require(closings.load() == 1, "the end is told once");
}

Bytes packet(const std::vector<PeerFile>& files, core::WireWriter content) {
  core::WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(files.size()));
  for (const PeerFile file : files) writer.u8(static_cast<std::uint8_t>(file));
  writer.u8(static_cast<std::uint8_t>(content.size()));
  writer.bytes(content.view());
  return writer.take();
}

Bytes request(std::uint32_t id) {
  core::WireWriter content;
  content.u16(kRequest);
  content.u32(id);
  return packet({}, std::move(content));
}

Bytes answer(std::uint32_t id, bool found, bool writable, std::uint64_t bytes,
             const std::vector<PeerFile>& files, bool on_gpu = false) {
  core::WireWriter content;
  content.u16(kAnswer);
  content.u32(id);
  content.u8(found ? 1 : 0);
  content.u8(writable ? 1 : 0);
  content.u8(on_gpu ? 1 : 0);
  content.u64(bytes);
  const gpu::GpuUuid uuid{};
  content.bytes({uuid.data(), uuid.size()});
  return packet(files, std::move(content));
}

Seeds seeds() {
  const Bytes asks_for_3{std::byte{1}, std::byte{3}};
  const Bytes asks_nothing{std::byte{0}};
  const auto answered = [&](const Bytes& packet) { return concatenated({asks_for_3, packet}); };
  return {
      {"request", concatenated({asks_nothing, request(kOurSegment), request(99)})},
      {"answer", answered(answer(3, true, false, kPageBytes, {PeerFile::kExport}))},
      {"answer-landing", answered(answer(3, true, true, kPageBytes, {PeerFile::kLanding}))},
      {"answer-not-found", answered(answer(3, false, false, 0, {}))},
      {"answer-too-long", answered(answer(3, true, false, kPageBytes + 1, {PeerFile::kExport}))},
      {"answer-unsealed", answered(answer(3, true, false, kPageBytes, {PeerFile::kUnsealed}))},
      {"answer-gpu", answered(answer(3, true, false, kPageBytes, {PeerFile::kExport}, true))},
      {"answer-pipe", answered(answer(3, true, false, kPageBytes, {PeerFile::kPipe}))},
      {"answer-without-file", answered(answer(3, true, false, kPageBytes, {}))},
      {"answer-unasked",
       concatenated({asks_nothing, answer(3, true, false, kPageBytes, {PeerFile::kExport})})},
      {"answer-twice",
       answered(concatenated({answer(3, true, false, kPageBytes, {PeerFile::kExport}),
                              answer(3, true, true, kPageBytes, {PeerFile::kLanding})}))},
      {"empty-packet", answered(packet({}, core::WireWriter()))},
  };
}

[[maybe_unused]] const bool kAdded = add_target({"segment_exchange", run, seeds});

}  // namespace
}  // namespace farwrite::fuzz
