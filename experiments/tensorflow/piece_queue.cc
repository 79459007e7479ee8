#include "piece_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace farwrite::experiments {
namespace {

// One write at most, so that the peer takes the first bytes out while the next ones go in.
constexpr std::uint64_t kChunkBytes = std::uint64_t{256} << 10;

}  // namespace

void PieceQueue::add(Piece piece) {
  if (piece.bytes.size > 0) waiting_.push_back(std::move(piece));
}

Status PieceQueue::add_credit(std::uint64_t bytes) {
  const std::uint64_t lying = ring_bytes_ - credit_;
  if (bytes <= lying) {
    credit_ += bytes;
    return Status();
  }
  return Status::error(StatusCode::kProtocolError, {"write into a ring", peer_},
                       "the peer took " + std::to_string(bytes) + " bytes out, and " +
                           std::to_string(lying) + " were in it",
                       "run the same release on both sides");
}

bool PieceQueue::next(RingWrite& write) {
  write.offset = written_ % ring_bytes_;
  const std::uint64_t room = std::min({credit_, ring_bytes_ - write.offset, kChunkBytes});
  write.head_bytes = 0;
  write.source = {};
  while (!waiting_.empty()) {
    const ByteView front = waiting_.front().bytes;
    if (write.head_bytes + front.size > std::min<std::uint64_t>(room, write.head.size())) break;
    std::memcpy(write.head.data() + write.head_bytes, front.data, front.size);
    write.head_bytes += front.size;
    waiting_.pop_front();
  }
  if (!waiting_.empty() && room > write.head_bytes) {
    Piece& front = waiting_.front();
    const auto bytes = static_cast<std::size_t>(
        std::min<std::uint64_t>(front.bytes.size, room - write.head_bytes));
    write.source = {ByteView(front.bytes.data, bytes), front.owner};
    front.bytes = ByteView(front.bytes.data + bytes, front.bytes.size - bytes);
    if (front.bytes.size == 0) waiting_.pop_front();
  }
  written_ += write.bytes();
  credit_ -= write.bytes();
  return write.bytes() > 0;
}

}  // namespace farwrite::experiments
