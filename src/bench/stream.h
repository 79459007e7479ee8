// A stream of plain writes or reads of one side, as ib_write_bw and ib_read_bw send theirs: so many
// under way, and the other side does nothing. What `bench p2p` measures between hosts.
#pragma once

#include <cstdint>

#include "bench/phase.h"
#include "farwrite/farwrite.h"

namespace farwrite::bench {

struct Stream {
  Op op = Op::kWrite;           // or kRead
  std::uint64_t size = 8;       // bytes of one transfer
  std::uint64_t transfers = 1;  // in all; the places of both memories are used in turn
  std::uint32_t depth = 1;      // the most that are under way
};

// Transfer i is between place i of `local` and of `remote`, modulo the places they have. Writes end
// with a flush, so that `seconds` runs until the last byte is there.
Result<Outcome> run_stream(const Device& device, Channel& channel, MutableByteView local,
                           const RemoteRegion& remote, const Stream& stream);

}  // namespace farwrite::bench
