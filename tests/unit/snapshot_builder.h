// Builds the bytes of a snapshot file piece by piece, also files that SnapshotWriter never writes:
// every checksum is right, whatever the content says.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "box/crc32c.h"
#include "box/snapshot_file.h"
#include "box/snapshot_format.h"
#include "box/whole_io.h"

namespace farwrite::box {

class SnapshotBuilder {
 public:
  explicit SnapshotBuilder(const std::vector<std::byte>& head = snapshot_head()) {
    structure(head);
  }

  // Any content, then any data.
  SnapshotBuilder& segment(ByteView content, ByteView data) {
    structure(snapshot_record(SnapshotRecord::kSegment, content));
    bytes_.insert(bytes_.end(), data.data, data.data + data.size);
    structure(snapshot_checksum(crc32c(data)));
    ++end_.segments;
    return *this;
  }
  SnapshotBuilder& record(SnapshotRecord kind, ByteView content) {
    structure(snapshot_record(kind, content));
    return *this;
  }
  // The end that fits what is there so far.
  SnapshotEnd right_end() const {
    SnapshotEnd end = end_;
    end.file_bytes = bytes_.size() + encoded(end).size();
    return end;
  }
  std::vector<std::byte> finish(const SnapshotEnd& end) const {
    std::vector<std::byte> all = bytes_;
    const std::vector<std::byte> last = encoded(end);
    all.insert(all.end(), last.begin(), last.end());
    return all;
  }
  std::vector<std::byte> finish() const { return finish(right_end()); }

 private:
  static std::vector<std::byte> encoded(const SnapshotEnd& end) {
    const std::vector<std::byte> content = end.to_bytes();
    return snapshot_record(SnapshotRecord::kEnd, {content.data(), content.size()});
  }
  void structure(const std::vector<std::byte>& bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    end_.structure = add_to_structure(end_.structure, {bytes.data(), bytes.size()});
  }

  std::vector<std::byte> bytes_;
  SnapshotEnd end_;
};

// A descriptor of a file that holds `bytes`, in memory.
inline core::UniqueFd file_of(ByteView bytes) {
  core::UniqueFd file(::memfd_create("snapshot", MFD_CLOEXEC));
  return write_whole(file.get(), bytes) == 0 ? std::move(file) : core::UniqueFd();
}

inline Result<SnapshotFile> open_snapshot(ByteView bytes) {
  return SnapshotFile::open(file_of(bytes), "snapshot");
}

}  // namespace farwrite::box
