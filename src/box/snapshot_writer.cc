#include "box/snapshot_writer.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>
#include <vector>

#include "box/crc32c.h"
#include "box/whole_io.h"

namespace farwrite::box {
namespace {

ByteView view_of(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

Status refused(const SnapshotEntry& entry, const std::string& cause) {
  return Status::error(StatusCode::kInvalidArgument,
                       {"add segment '" + entry.spec.name + "' to a snapshot"}, cause,
                       "pass the segment as the server created it, and all its bytes");
}

}  // namespace

Result<SnapshotWriter> SnapshotWriter::begin(std::shared_ptr<SnapshotDirectory> directory) {
  auto partial = directory->create_partial();
  if (!partial.ok()) return partial.status();
  SnapshotWriter writer(std::move(directory), std::move(partial).value());
  FARWRITE_RETURN_IF_ERROR(writer.write_structure(view_of(snapshot_head())));
  return writer;
}

SnapshotWriter::~SnapshotWriter() {
  if (directory_ != nullptr) directory_->drop_partial(partial_.path);
}

Status SnapshotWriter::write(ByteView bytes) {
  const int error_number = write_whole(partial_.file.get(), bytes);
  if (error_number == 0) {
    written_ += bytes.size;
    return Status();
  }
  failure_ =
      snapshot_io_error("write a snapshot", partial_.path + " cannot be written", error_number);
  return failure_;
}

Status SnapshotWriter::write_structure(ByteView bytes) {
  structure_ = add_to_structure(structure_, bytes);
  return write(bytes);
}

Status SnapshotWriter::add(const SnapshotEntry& entry, ByteView data) {
  FARWRITE_RETURN_IF_ERROR(failure_);
  const Status valid = entry.check();
  if (!valid.ok()) return refused(entry, valid.message());
  if (data.size != entry.bytes) {
    return refused(entry, std::to_string(data.size) + " bytes of data, where the segment has " +
                              std::to_string(entry.bytes));
  }
  const auto content = entry.to_bytes();
  FARWRITE_RETURN_IF_ERROR(
      write_structure(view_of(snapshot_record(SnapshotRecord::kSegment, view_of(content)))));
  std::uint32_t sum = 0;
  // A piece is summed and written while it is in the cache.
  for (std::size_t at = 0; at < data.size; at += kSnapshotPiece) {
    const ByteView piece(data.data + at, std::min(kSnapshotPiece, data.size - at));
    sum = crc32c(piece, sum);
    FARWRITE_RETURN_IF_ERROR(write(piece));
  }
  FARWRITE_RETURN_IF_ERROR(write_structure(view_of(snapshot_checksum(sum))));
  ++segments_;
  return Status();
}

Status SnapshotWriter::commit(std::uint32_t keep) {
  FARWRITE_RETURN_IF_ERROR(failure_);
  SnapshotEnd end{.segments = segments_, .file_bytes = 0, .structure = structure_};
  const std::size_t size = snapshot_record(SnapshotRecord::kEnd, view_of(end.to_bytes())).size();
  end.file_bytes = written_ + size;
  FARWRITE_RETURN_IF_ERROR(
      write(view_of(snapshot_record(SnapshotRecord::kEnd, view_of(end.to_bytes())))));
  // Never tried again: after a failed fsync(2) the kernel may have dropped what it could not write.
  if (::fsync(partial_.file.get()) != 0) {
    failure_ =
        snapshot_io_error("commit a snapshot", partial_.path + " cannot be synchronized", errno);
    return failure_;
  }
  auto published = directory_->publish(partial_.path, keep);
  failure_ = published.ok() ? Status(StatusCode::kFailedPrecondition,
                                     "the snapshot is committed already; begin another one")
                            : published.status();
  return published.ok() ? Status() : published.status();
}

}  // namespace farwrite::box
