// A stream of plain writes or reads by one side, as in ib_write_bw and ib_read_bw: a fixed number
// is under way, and the other side does nothing. `bench p2p` measures streams between hosts.
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
  std::uint64_t transfers = 1;  // in total; they rotate over the places of both memories
  std::uint32_t depth = 1;      // the highest number under way
};

// A region that the peer published, and the channel to it. Thread-compatible.
class StreamTarget {
 public:
  // Looks up `name` over `channel`.
  static Result<StreamTarget> open(const Channel& channel, const std::string& name);

  // Transfer i is between place i of `local` and place i of the region, modulo the number of
  // places. Writes end with a flush. Returns the seconds until the last byte has arrived.
  Result<double> run(MutableByteView local, const Stream& stream);

 private:
  StreamTarget(Channel channel, RemoteRegion remote)
      : channel_(std::move(channel)), remote_(std::move(remote)) {}

  Channel channel_;
  RemoteRegion remote_;
};

}  // namespace farwrite::bench
