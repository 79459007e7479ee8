// A stream of plain writes or reads of one side, as ib_write_bw and ib_read_bw send theirs: so many
// under way, and the other side does nothing. What `bench p2p` measures between hosts.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "farwrite/farwrite.h"
#include "phase.h"

namespace farwrite::bench {

struct Stream {
  Op op = Op::kWrite;           // or kRead
  std::uint64_t size = 8;       // bytes of one transfer
  std::uint64_t transfers = 1;  // in all; the places of both memories are used in turn
  std::uint32_t depth = 1;      // the most that are under way
};

// A region that the peer published, and the channel to it. Thread-compatible.
class StreamTarget {
 public:
  // Looks `name` up over `channel`.
  static Result<StreamTarget> open(const Channel& channel, const std::string& name);

  // Transfer i is between place i of `local` and of the region, modulo the places they have. Writes
  // end with a flush. Returns the seconds until the last byte is there.
  Result<double> run(MutableByteView local, const Stream& stream);

 private:
  StreamTarget(Channel channel, RemoteRegion remote)
      : channel_(std::move(channel)), remote_(std::move(remote)) {}

  Channel channel_;
  RemoteRegion remote_;
};

}  // namespace farwrite::bench
