// SegmentReader: one read of a segment's bytes, checked against the stamps that the server keeps.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "box/box.h"
#include "box/segment_state.h"
#include "core/deadline.h"

namespace farwrite::box {

// Thread-compatible; made for one read.
class SegmentReader {
 public:
  // `deadline` is the call's own. `owner` keeps the memory that read() fills; without one, a read
  // of bytes that is under way is waited for.
  SegmentReader(SegmentState& segment, const core::Deadline& deadline,
                std::shared_ptr<const void> owner)
      : segment_(segment), deadline_(deadline), owner_(std::move(owner)) {}

  // Fills `out` from `offset` on; the range has been checked.
  Result<ReadResult> read(MutableByteView out, std::uint64_t offset, Consistency consistency);

 private:
  // kNotFound if the buffer is gone: look for the current one again.
  Status fetch(const SegmentState::BufferRow& row, MutableByteView out, std::uint64_t offset);

  // Tries without the server first, then with a lease. kResourceExhausted if other leases take
  // every buffer for longer than the call's or the client's timeout.
  Status read_range(MutableByteView out, std::uint64_t offset, Consistency consistency);
  // Each true if `out` is whole, false after too many tries.
  Result<bool> read_segment(MutableByteView out, std::uint64_t offset);
  Result<bool> read_chunks(MutableByteView out, std::uint64_t offset);
  // Reads `count` chunks from `chunk` on, says in `missing` which of them are not whole, and
  // returns how many those are.
  Result<std::uint64_t> read_run(MutableByteView out, std::uint64_t offset, std::uint64_t chunk,
                                 std::uint64_t count, std::vector<bool>& missing);
  Status read_leased(MutableByteView out, std::uint64_t offset);
  void set_version(const VersionId& id) {
    result_.epoch = id.epoch;
    result_.version = id.version;
  }

  SegmentState& segment_;
  const core::Deadline deadline_;
  const std::shared_ptr<const void> owner_;
  ReadResult result_;
};

}  // namespace farwrite::box
