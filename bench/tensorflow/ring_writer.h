// RingWriter: the sending end of a stream of bytes through a ring in the peer's registered memory.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/channel.h"
#include "farwrite/region.h"

namespace farwrite::bench {

// Bytes, and what keeps them.
struct Piece {
  ByteView bytes;
  std::shared_ptr<const void> owner;
};

// Thread-safe. A failure of the channel is not seen here, but by who waits for its notifications.
class RingWriter {
 public:
  RingWriter(Channel channel, RemoteRegion ring);

  // Queues the bytes behind all earlier ones, and writes as many as the ring has room for. Never
  // waits for the peer.
  void write(std::vector<Piece> pieces);
  // The peer has taken so many bytes out of the ring.
  void add_credit(std::uint64_t bytes);

 private:
  struct Step;

  void pump();
  // With the lock. Takes bytes off the queue.
  bool next(Step& step);

  Channel channel_;
  const RemoteRegion ring_;
  std::mutex mutex_;
  std::deque<Piece> waiting_;
  std::uint64_t credit_;
  std::uint64_t written_ = 0;
  bool pumping_ = false;  // a thread writes, and sees what is added meanwhile
};

}  // namespace farwrite::bench
