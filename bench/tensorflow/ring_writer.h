// RingWriter: the sending end of a stream of bytes through a ring in the peer's registered memory.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "farwrite/channel.h"
#include "farwrite/region.h"
#include "piece_queue.h"

namespace farwrite::bench {

// Thread-safe. A failure of the channel is not seen here, but by who waits for its notifications.
class RingWriter {
 public:
  // `ring` has at least one byte.
  RingWriter(Channel channel, RemoteRegion ring);

  // Queues the bytes behind all earlier ones, and writes as many as the ring has room for. Never
  // waits for the peer.
  void write(std::vector<Piece> pieces);
  // As PieceQueue::add_credit(); also writes what has room now.
  Status add_credit(std::uint64_t bytes);

 private:
  void pump();

  Channel channel_;
  const RemoteRegion ring_;
  std::mutex mutex_;
  PieceQueue queue_;
  bool pumping_ = false;  // a thread writes, and sees what is added meanwhile
};

}  // namespace farwrite::bench
