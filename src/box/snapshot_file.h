// SnapshotFile: one file, read as a snapshot. Nothing in it is trusted.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "box/snapshot_format.h"
#include "core/unique_fd.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::box {

// Every message is "PATH: CAUSE", for a caller that knows the operation and the remedy. Damage is
// kProtocolError; a system call that failed gives the code of its errno. Memory is bounded,
// whatever the file holds. Thread-compatible.
class SnapshotFile {
 public:
  // Reads all of the file and checks every length and checksum. kVersionMismatch for a whole head
  // of another format version. `path` is for messages.
  static Result<SnapshotFile> open(core::UniqueFd file, std::string path);

  const std::string& path() const { return path_; }
  // The next segment, or nothing behind the last one.
  Result<std::optional<SnapshotEntry>> next();
  // The data of the segment that next() returned last, checked once more, because the file may have
  // changed. `out` must be as long as the data. May be called again.
  Status read(MutableByteView out);

 private:
  // The place of a segment's data in the file.
  struct Data {
    std::uint64_t position = 0;
    std::uint64_t bytes = 0;
    std::string segment;  // for messages
  };
  struct StoredRecord {
    SnapshotRecord kind = SnapshotRecord::kSegment;
    std::vector<std::byte> bytes;  // the whole record
    ByteView content() const;
  };

  SnapshotFile(core::UniqueFd file, std::string path, std::uint64_t bytes)
      : file_(std::move(file)), path_(std::move(path)), bytes_(bytes) {}

  Status check_whole();
  Status read_head();
  Result<StoredRecord> read_record();
  Status check_end(ByteView content) const;
  Status leave_data();
  // Reads the data in pieces, each to `to` plus the product of its offset and `stride`.
  Status read_data(std::byte* to, std::uint64_t stride) const;
  Status read_at(std::uint64_t position, MutableByteView out) const;
  std::uint64_t left() const { return bytes_ - position_; }
  Status damaged(const std::string& cause) const;
  Status damaged_at(const std::string& what, const std::string& cause) const;

  core::UniqueFd file_;
  std::string path_;
  std::uint64_t bytes_ = 0;     // of the file
  std::uint64_t position_ = 0;  // of the next record, or of `data_`
  std::uint64_t segments_ = 0;
  std::uint32_t structure_ = 0;
  std::uint32_t version_ = kSnapshotVersion;
  std::optional<Data> data_;
  bool ended_ = false;
};

}  // namespace farwrite::box
