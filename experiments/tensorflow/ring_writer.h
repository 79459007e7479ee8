// RingWriter: the sending end of a stream of bytes through a ring in the peer's registered memory.
#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <vector>

#include "farwrite/channel.h"
#include "farwrite/region.h"
#include "piece_queue.h"

namespace farwrite::experiments {

// Thread-safe. A failure of the channel is not seen here, but by who waits for its notifications.
class RingWriter {
 public:
  // A thread of TensorFlow's executor copies no more than this into the ring.
  static constexpr std::uint64_t kBriefBytes = std::uint64_t{64} << 10;

  // `ring` has at least one byte. `later` has write_rest() called on a thread that may be busy for
  // long.
  RingWriter(Channel channel, RemoteRegion ring, std::function<void()> later);

  // Queues the bytes behind all earlier ones. Never waits for the peer. Writes kBriefBytes of what
  // waits, or one chunk if that is more, and leaves the rest to `later`.
  void write(std::vector<Piece> pieces);
  // The same, and writes as much as the ring has room for.
  void write_at_length(std::vector<Piece> pieces);
  // As PieceQueue::add_credit(); also writes what has room now.
  Status add_credit(std::uint64_t bytes);
  void write_rest();

 private:
  void add(std::vector<Piece> pieces);
  void pump(std::uint64_t most);

  Channel channel_;
  const RemoteRegion ring_;
  const std::function<void()> later_;
  std::mutex mutex_;
  PieceQueue queue_;
  bool pumping_ = false;  // a thread writes, and sees what is added meanwhile
};

}  // namespace farwrite::experiments
