// SnapshotReader: the newest snapshot of a directory that is whole.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "box/snapshot_directory.h"
#include "box/snapshot_file.h"
#include "box/snapshot_format.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::box {

// Thread-compatible.
class SnapshotReader {
 public:
  // Checks the snapshots completely, from the newest on, until one is whole. A damaged one is
  // skipped. kNotFound if none is whole; the sentence names each and its damage. kVersionMismatch
  // for a snapshot of a later Farwrite: it is not damaged, and nothing older is restored in its
  // place. kPermissionDenied and kResourceExhausted if a file cannot be opened for such a reason.
  static Result<SnapshotReader> open(const SnapshotDirectory& directory);

  // Of the snapshot that is read.
  const std::string& path() const { return file_.path(); }
  // "PATH: CAUSE" for each newer snapshot that was skipped, for the log.
  const std::vector<std::string>& damaged() const { return damaged_; }

  // The next segment, or nothing behind the last one.
  Result<std::optional<SnapshotEntry>> next();
  // The data of the segment that next() returned last. `out` must be as long as the data. The data
  // is checked once more while it is read; on a failure the contents of `out` are undefined.
  Status read(MutableByteView out);

 private:
  SnapshotReader(SnapshotFile file, std::vector<std::string> damaged)
      : file_(std::move(file)), damaged_(std::move(damaged)) {}

  SnapshotFile file_;
  std::vector<std::string> damaged_;
};

}  // namespace farwrite::box
