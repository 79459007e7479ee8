// SnapshotWriter: writes one snapshot, which exists from commit() on and not before.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "box/snapshot_directory.h"
#include "box/snapshot_format.h"
#include "core/unique_fd.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::box {

// Holds no data in memory. A failure is final: every later call returns the same Status. Older
// snapshots are untouched until commit() has returned ok. Thread-compatible.
class SnapshotWriter {
 public:
  static Result<SnapshotWriter> begin(std::shared_ptr<SnapshotDirectory> directory);

  SnapshotWriter(SnapshotWriter&&) noexcept = default;
  SnapshotWriter& operator=(SnapshotWriter&&) = delete;
  // Removes the partial file of a snapshot that was not committed.
  ~SnapshotWriter();

  // Appends a segment. Nothing may change `data` before add() returns, or the snapshot is damaged.
  // kInvalidArgument for an entry that fails its check() or whose size is not that of `data`; this
  // failure alone changes nothing, and the next add() may succeed.
  Status add(const SnapshotEntry& entry, ByteView data);
  // Writes the end, waits until the file is on the disk, and gives it its final name. Then removes
  // the snapshots older than the newest `keep`, at least 1. No call may follow.
  Status commit(std::uint32_t keep = kKeptSnapshots);

 private:
  SnapshotWriter(std::shared_ptr<SnapshotDirectory> directory, PartialSnapshot partial)
      : directory_(std::move(directory)), partial_(std::move(partial)) {}

  // Appends a head, a record or a checksum; and any bytes.
  Status write_structure(ByteView bytes);
  Status write(ByteView bytes);

  std::shared_ptr<SnapshotDirectory> directory_;
  PartialSnapshot partial_;
  std::uint64_t written_ = 0;
  std::uint64_t segments_ = 0;
  std::uint32_t structure_ = 0;
  Status failure_;
};

}  // namespace farwrite::box
