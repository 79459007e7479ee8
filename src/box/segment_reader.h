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
  enum class Try {
    kWhole,
    kChanging,  // a change of the bytes is under way
    kMoved,     // another buffer is current, or the buffer is gone
    kTorn,      // the bytes changed meanwhile
  };
  // Three round trips: the row, the bytes, and the row again.
  Result<Try> try_apart(MutableByteView out, std::uint64_t offset);
  // The same in one, of the row that was current when this client looked last. Of more than
  // kGuessedBytes in two: it looks first.
  Result<Try> try_at_once(MutableByteView out, std::uint64_t offset);
  // Finds row_, state_ and buffer_. False: the buffer is gone, so look again.
  Result<bool> begin_at_once(std::uint64_t bytes);
  // Takes the state that was read before the bytes of `where`: whether that was current.
  Result<bool> end_at_once(const std::uint64_t* head, const SegmentState::BufferRow& where);

  // Each true if `out` is whole, false after too many tries.
  Result<bool> read_segment(MutableByteView out, std::uint64_t offset);
  Result<bool> read_chunks(MutableByteView out, std::uint64_t offset);
  // Reads `count` chunks from `chunk` on, says in `missing` which of them are not whole, and
  // returns how many those are.
  Result<std::uint64_t> read_run(MutableByteView out, std::uint64_t offset, std::uint64_t chunk,
                                 std::uint64_t count, std::vector<bool>& missing);
  // Reads the bytes of the run, and the stamps before and after them. False: of no use.
  Result<bool> take_run_apart(MutableByteView piece, std::uint64_t begin, std::uint64_t chunk,
                              std::uint64_t count, std::uint64_t* before, std::uint64_t* after);
  Result<bool> take_run_at_once(MutableByteView piece, std::uint64_t begin, std::uint64_t chunk,
                                std::uint64_t count, std::uint64_t* before, std::uint64_t* after);
  Status read_leased(MutableByteView out, std::uint64_t offset);
  void set_version(const VersionId& id) {
    result_.epoch = id.epoch;
    result_.version = id.version;
  }

  SegmentState& segment_;
  const core::Deadline deadline_;
  const std::shared_ptr<const void> owner_;
  bool at_once_ = false;  // the server takes reads in order
  // Where at_once_.
  SegmentState::BufferRow row_;  // of the buffer that is read next; number 0: none is known
  bool seen_ = false;            // this call has seen that it was current, with its stamp
  bool dated_ = false;           // the result has its version, of a read of chunks
  RemoteRegion state_;
  RemoteRegion buffer_;
  ReadResult result_;
};

}  // namespace farwrite::box
