// SegmentReader: one read of a segment's bytes, checked against the stamps that the server keeps.
#pragma once

#include <cstdint>

#include "box/segment_state.h"
#include "farwrite/box.h"

namespace farwrite::box {

// Thread-compatible; made for one read.
class SegmentReader {
 public:
  explicit SegmentReader(SegmentState& segment) : segment_(segment) {}

  // Fills `out` from `offset` on; the range has been checked.
  Result<ReadResult> read(MutableByteView out, std::uint64_t offset, Consistency consistency);

 private:
  // kNotFound if the buffer is gone: look for the place again.
  Status fetch(const SegmentState::Place& place, MutableByteView out, std::uint64_t offset);

  // Each true if `out` is whole, false after too many tries.
  Result<bool> read_segment(MutableByteView out, std::uint64_t offset);
  Result<bool> read_chunks(MutableByteView out, std::uint64_t offset);
  Result<bool> read_group(MutableByteView out, std::uint64_t offset);
  Status read_leased(MutableByteView out, std::uint64_t offset);

  SegmentState& segment_;
  ReadResult result_;
};

}  // namespace farwrite::box
