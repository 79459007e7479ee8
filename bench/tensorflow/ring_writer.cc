#include "ring_writer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace farwrite::bench {
namespace {

// One write at most, so that the peer takes the first bytes out while the next ones go in.
constexpr std::uint64_t kChunkBytes = std::uint64_t{256} << 10;

}  // namespace

// One write: short pieces gathered, and a part of the piece behind them.
struct RingWriter::Step {
  std::array<std::byte, kMaxHeadBytes> head;
  std::uint64_t head_bytes = 0;
  Piece source;
  std::uint64_t offset = 0;
};

RingWriter::RingWriter(Channel channel, RemoteRegion ring)
    : channel_(std::move(channel)), ring_(std::move(ring)), credit_(ring_.size()) {}

void RingWriter::write(std::vector<Piece> pieces) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    for (Piece& piece : pieces) {
      if (piece.bytes.size > 0) waiting_.push_back(std::move(piece));
    }
  }
  pump();
}

void RingWriter::add_credit(std::uint64_t bytes) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    credit_ += bytes;
  }
  pump();
}

void RingWriter::pump() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (pumping_) return;
  pumping_ = true;
  Step step;
  while (next(step)) {
    lock.unlock();
    const std::uint64_t bytes = step.head_bytes + step.source.bytes.size;
    const Completion written = channel_.write_with_notify(
        ByteView(step.head.data(), static_cast<std::size_t>(step.head_bytes)), step.source.bytes,
        ring_, step.offset, static_cast<std::uint32_t>(bytes));
    if (!written.settled()) written.on_settled([owner = step.source.owner](const Status&) {});
    step.source = {};  // owners go without the lock
    lock.lock();
  }
  pumping_ = false;
}

bool RingWriter::next(Step& step) {
  step.offset = written_ % ring_.size();
  const std::uint64_t room = std::min({credit_, ring_.size() - step.offset, kChunkBytes});
  step.head_bytes = 0;
  while (!waiting_.empty()) {
    const ByteView front = waiting_.front().bytes;
    if (step.head_bytes + front.size > std::min<std::uint64_t>(room, step.head.size())) break;
    std::memcpy(step.head.data() + step.head_bytes, front.data, front.size);
    step.head_bytes += front.size;
    waiting_.pop_front();
  }
  if (!waiting_.empty() && room > step.head_bytes) {
    Piece& front = waiting_.front();
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(front.bytes.size, room - step.head_bytes));
    step.source = {ByteView(front.bytes.data, bytes), front.owner};
    front.bytes = ByteView(front.bytes.data + bytes, front.bytes.size - bytes);
    if (front.bytes.size == 0) waiting_.pop_front();
  }
  const std::uint64_t bytes = step.head_bytes + step.source.bytes.size;
  written_ += bytes;
  credit_ -= bytes;
  return bytes > 0;
}

}  // namespace farwrite::bench
