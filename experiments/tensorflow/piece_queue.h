// PieceQueue: bytes that wait for room in the peer's ring, cut into the writes that fit.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>

#include "farwrite/bytes.h"
#include "farwrite/channel_types.h"
#include "farwrite/status.h"

namespace farwrite::experiments {

// Bytes, and what keeps them.
struct Piece {
  ByteView bytes;
  std::shared_ptr<const void> owner;
};

// One write: short pieces gathered, and a part of the piece behind them.
struct RingWrite {
  std::array<std::byte, kMaxHeadBytes> head;
  std::uint64_t head_bytes = 0;
  Piece source;
  std::uint64_t offset = 0;  // in the ring

  std::uint64_t bytes() const { return head_bytes + source.bytes.size; }
};

// Not thread-safe.
class PieceQueue {
 public:
  // Of a ring of so many bytes, which is empty. `peer` is its owner's name in messages.
  PieceQueue(std::uint64_t ring_bytes, std::string peer)
      : ring_bytes_(ring_bytes), peer_(std::move(peer)), credit_(ring_bytes) {}

  void add(Piece piece);
  // The peer reports that it took so many bytes out of the ring. kProtocolError if fewer were in
  // it; then they are not counted.
  Status add_credit(std::uint64_t bytes);
  // Takes the next write off the queue. False if nothing waits or the ring is full.
  bool next(RingWrite& write);
  // Whether next() would take one.
  bool has_next() const { return !waiting_.empty() && credit_ > 0; }

 private:
  const std::uint64_t ring_bytes_;
  const std::string peer_;
  std::deque<Piece> waiting_;
  std::uint64_t credit_;  // room in the ring
  std::uint64_t written_ = 0;
};

}  // namespace farwrite::experiments
