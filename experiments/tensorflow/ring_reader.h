// RingReader: where the peer's bytes lie in this process's ring, and how much room goes back to the
// peer. It trusts no number of the peer.
#pragma once

#include <cstdint>
#include <string>

#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::experiments {

// Not thread-safe.
class RingReader {
 public:
  // `ring` outlives the reader; the peer writes there. `peer` is its name in messages.
  RingReader(ByteView ring, std::string peer) : ring_(ring), peer_(std::move(peer)) {}

  // The peer reports so many more bytes. kProtocolError if the ring has no room for them; then they
  // are not counted.
  Status add(std::uint64_t bytes);
  // Bytes of the peer that were not consumed.
  std::uint64_t available() const { return available_; }
  // The next bytes up to the ring's end, at most `most`. Empty if none are available.
  ByteView peek(std::uint64_t most) const;
  // At most as many as the last peek() returned. Returns how much room to give back to the peer
  // now: mostly 0, because room goes back in parts of the ring.
  std::uint64_t consume(std::uint64_t bytes);

 private:
  const ByteView ring_;
  const std::string peer_;
  std::uint64_t read_ = 0;  // bytes consumed so far
  std::uint64_t available_ = 0;
  std::uint64_t owed_ = 0;  // consumed, and not given back
};

}  // namespace farwrite::experiments
