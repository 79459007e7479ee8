#include "box/snapshot_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "box/crc32c.h"
#include "box/snapshot_directory.h"
#include "box/whole_io.h"
#include "core/wire.h"

namespace farwrite::box {
namespace {

using StoredSum = std::array<std::byte, kSnapshotChecksumBytes>;

ByteView view_of(const StoredSum& stored) { return {stored.data(), stored.size()}; }

std::uint32_t sum_in(ByteView stored) { return core::WireReader(stored).u32(); }

// An errno without operation and remedy.
Status system_failure(const std::string& path, std::string_view cause, int error_number) {
  const StatusCode code = snapshot_io_error("", "", error_number).code();
  return Status::system_error(code, {path}, cause, error_number, "");
}

}  // namespace

ByteView SnapshotFile::StoredRecord::content() const {
  return {bytes.data() + kSnapshotRecordPrefix,
          bytes.size() - kSnapshotRecordPrefix - kSnapshotChecksumBytes};
}

Status SnapshotFile::damaged(const std::string& cause) const {
  return Status(StatusCode::kProtocolError, path_ + ": " + cause);
}

Status SnapshotFile::damaged_at(const std::string& what, const std::string& cause) const {
  return damaged(what + " at byte " + std::to_string(position_) + " of " + std::to_string(bytes_) +
                 " " + cause);
}

Result<SnapshotFile> SnapshotFile::open(core::UniqueFd file, std::string path) {
  struct stat found{};
  if (::fstat(file.get(), &found) != 0) return system_failure(path, "cannot be examined", errno);
  const auto bytes = static_cast<std::uint64_t>(found.st_size);
  (void)::posix_fadvise(file.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  SnapshotFile snapshot(std::move(file), std::move(path), bytes);
  if (!S_ISREG(found.st_mode)) return snapshot.damaged("not a regular file");
  FARWRITE_RETURN_IF_ERROR(snapshot.check_whole());
  return snapshot;
}

Status SnapshotFile::check_whole() {
  std::vector<std::byte> piece(std::min<std::uint64_t>(kSnapshotPiece, bytes_));
  FARWRITE_RETURN_IF_ERROR(read_head());
  while (true) {
    auto entry = next();
    if (!entry.ok()) return entry.status();
    if (!entry->has_value()) break;
    FARWRITE_RETURN_IF_ERROR(read_data(piece.data(), 0));
  }
  position_ = 0;
  segments_ = 0;
  structure_ = 0;
  ended_ = false;
  return read_head();
}

Status SnapshotFile::read_head() {
  std::array<std::byte, kSnapshotHeadBytes> head{};
  if (bytes_ < head.size()) return damaged("the file ends within its head");
  FARWRITE_RETURN_IF_ERROR(read_at(0, {head.data(), head.size()}));
  const ByteView view(head.data(), head.size());
  const Result<std::uint32_t> version = read_snapshot_head(view);
  if (!version.ok()) {
    return Status(version.status().code(), path_ + ": " + version.status().message());
  }
  version_ = version.value();
  structure_ = add_to_structure(0, view);
  position_ = head.size();
  return Status();
}

Result<std::optional<SnapshotEntry>> SnapshotFile::next() {
  if (ended_) return std::optional<SnapshotEntry>();
  if (data_.has_value()) FARWRITE_RETURN_IF_ERROR(leave_data());
  auto record = read_record();
  if (!record.ok()) return record.status();
  if (record->kind == SnapshotRecord::kEnd) {
    FARWRITE_RETURN_IF_ERROR(check_end(record->content()));
    ended_ = true;
    return std::optional<SnapshotEntry>();
  }
  auto entry = version_ == 1 ? SnapshotEntry::from_version_1(record->content())
                             : SnapshotEntry::from_bytes(record->content());
  if (!entry.ok()) return damaged_at("the segment", "is malformed: " + entry.status().message());
  position_ += record->bytes.size();
  structure_ = add_to_structure(structure_, {record->bytes.data(), record->bytes.size()});
  if (left() < kSnapshotChecksumBytes || entry->bytes > left() - kSnapshotChecksumBytes) {
    return damaged_at("the data", "is shorter than the " + std::to_string(entry->bytes) +
                                      " bytes of segment '" + entry->spec.name + "'");
  }
  ++segments_;
  data_ = Data{position_, entry->bytes, entry->spec.name};
  return std::optional<SnapshotEntry>(std::move(entry).value());
}

Result<SnapshotFile::StoredRecord> SnapshotFile::read_record() {
  constexpr std::size_t kAround = kSnapshotRecordPrefix + kSnapshotChecksumBytes;
  std::array<std::byte, kSnapshotRecordPrefix> prefix{};
  if (left() < kAround) return damaged_at("the record", "is cut off");
  FARWRITE_RETURN_IF_ERROR(read_at(position_, {prefix.data(), prefix.size()}));
  core::WireReader reader({prefix.data(), prefix.size()});
  StoredRecord record;
  record.kind = static_cast<SnapshotRecord>(reader.u8());
  const std::size_t length = reader.u32();
  if (length > kSnapshotRecordLimit || length > left() - kAround) {
    return damaged_at("the record",
                      "has a length of " + std::to_string(length) + ", which is too long");
  }
  record.bytes.resize(kAround + length);
  FARWRITE_RETURN_IF_ERROR(read_at(position_, {record.bytes.data(), record.bytes.size()}));
  const std::size_t summed = record.bytes.size() - kSnapshotChecksumBytes;
  const ByteView stored(record.bytes.data() + summed, kSnapshotChecksumBytes);
  if (sum_in(stored) != crc32c({record.bytes.data(), summed})) {
    return damaged_at("the record", "does not match its checksum");
  }
  if (record.kind != SnapshotRecord::kSegment && record.kind != SnapshotRecord::kEnd) {
    return damaged_at("the record", "is of an unknown kind");
  }
  return record;
}

Status SnapshotFile::check_end(ByteView content) const {
  auto end = SnapshotEnd::from_bytes(content);
  if (!end.ok()) return damaged_at("the end", "is malformed: " + end.status().message());
  const std::uint64_t position =
      position_ + kSnapshotRecordPrefix + content.size + kSnapshotChecksumBytes;
  if (end->file_bytes != bytes_ || position != bytes_) {
    return damaged_at("the end",
                      "belongs to a file of " + std::to_string(end->file_bytes) + " bytes");
  }
  if (end->segments != segments_) {
    return damaged_at("the end", "belongs to a file of " + std::to_string(end->segments) +
                                     " segments, and this one has " + std::to_string(segments_));
  }
  if (end->structure == structure_) return Status();
  return damaged_at("the end", "belongs to other segments: their checksum differs");
}

Status SnapshotFile::leave_data() {
  StoredSum stored{};
  position_ = data_->position + data_->bytes;
  data_.reset();
  FARWRITE_RETURN_IF_ERROR(read_at(position_, {stored.data(), stored.size()}));
  structure_ = add_to_structure(structure_, view_of(stored));
  position_ += stored.size();
  return Status();
}

Status SnapshotFile::read(MutableByteView out) {
  if (!data_.has_value()) {
    return Status(StatusCode::kFailedPrecondition, path_ + ": no segment is current");
  }
  if (out.size != data_->bytes) {
    return Status(StatusCode::kInvalidArgument,
                  path_ + ": segment '" + data_->segment + "' has " + std::to_string(data_->bytes) +
                      " bytes of data, and the memory for it " + std::to_string(out.size));
  }
  return read_data(out.data, 1);
}

Status SnapshotFile::read_data(std::byte* to, std::uint64_t stride) const {
  std::uint32_t sum = 0;
  for (std::uint64_t at = 0; at < data_->bytes; at += kSnapshotPiece) {
    const MutableByteView piece(to + at * stride,
                                std::min<std::uint64_t>(kSnapshotPiece, data_->bytes - at));
    FARWRITE_RETURN_IF_ERROR(read_at(data_->position + at, piece));
    sum = crc32c(piece, sum);
  }
  StoredSum stored{};
  FARWRITE_RETURN_IF_ERROR(read_at(data_->position + data_->bytes, {stored.data(), stored.size()}));
  if (sum == sum_in(view_of(stored))) return Status();
  return damaged_at("the data of segment '" + data_->segment + "'", "does not match its checksum");
}

Status SnapshotFile::read_at(std::uint64_t position, MutableByteView out) const {
  std::size_t got = 0;
  const int error_number = read_whole(file_.get(), position, out, got);
  if (error_number != 0) return system_failure(path_, "cannot be read", error_number);
  if (got == out.size) return Status();
  return damaged("the file was cut off at byte " + std::to_string(position + got) +
                 " while it was read");
}

}  // namespace farwrite::box
