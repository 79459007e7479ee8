#include "box/snapshot_format.h"

#include <algorithm>
#include <string>

#include "box/crc32c.h"
#include "box/epoch.h"
#include "box/messages.h"
#include "core/fields.h"

namespace farwrite::box {
namespace {

Status malformed(const std::string& cause) { return Status(StatusCode::kProtocolError, cause); }

// What finish() would report names a peer. In a file, the place is what helps.
std::string left_over(const core::FieldReader& reader, std::size_t size) {
  return (reader.ok() ? "it has bytes too many from byte "
                      : "it does not hold the field at byte ") +
         std::to_string(reader.position()) + " of " + std::to_string(size);
}

}  // namespace

Status SnapshotEntry::check() const {
  const Result<std::uint64_t> expected = checked_bytes(spec);
  if (!expected.ok()) return expected.status();
  if (expected.value() == bytes) return Status();
  return Status(StatusCode::kInvalidArgument, "it has " + std::to_string(bytes) +
                                                  " bytes, and its shape makes " +
                                                  std::to_string(expected.value()));
}

template <typename Wire>
void SnapshotEntry::fields(Wire& wire) {
  wire(key, id.epoch, id.version, bytes, SegmentSpecField{spec},
       core::sized(spec.description, kMaxDescription));
}

std::vector<std::byte> SnapshotEntry::to_bytes() const { return core::to_bytes(*this); }

Result<SnapshotEntry> SnapshotEntry::from_bytes(ByteView bytes) {
  core::FieldReader reader(bytes);
  SnapshotEntry entry;
  reader(entry);
  if (!reader.ok() || reader.remaining() != 0) return malformed(left_over(reader, bytes.size));
  const Status status = entry.check();
  if (!status.ok()) return malformed("no segment is like that: " + status.message());
  if (entry.id.epoch > kMaxEpoch) return malformed("no segment has so high an epoch");
  const std::vector<std::byte> written = entry.to_bytes();
  if (!std::equal(written.begin(), written.end(), bytes.data, bytes.data + bytes.size)) {
    return malformed("it has bytes that no snapshot has");
  }
  return entry;
}

Result<SnapshotEntry> SnapshotEntry::from_version_1(ByteView bytes) {
  constexpr std::size_t kKeyBytes = 8;
  constexpr std::size_t kEpochBytes = 8;
  std::vector<std::byte> with_epoch(bytes.data, bytes.data + bytes.size);
  const std::size_t at = std::min(kKeyBytes, with_epoch.size());
  with_epoch.insert(with_epoch.begin() + static_cast<std::ptrdiff_t>(at), kEpochBytes,
                    std::byte{0});
  return from_bytes({with_epoch.data(), with_epoch.size()});
}

template <typename Wire>
void SnapshotEnd::fields(Wire& wire) {
  wire(segments, file_bytes, structure);
}

std::vector<std::byte> SnapshotEnd::to_bytes() const { return core::to_bytes(*this); }

Result<SnapshotEnd> SnapshotEnd::from_bytes(ByteView bytes) {
  core::FieldReader reader(bytes);
  SnapshotEnd end;
  reader(end);
  if (!reader.ok() || reader.remaining() != 0) return malformed(left_over(reader, bytes.size));
  return end;
}

std::vector<std::byte> snapshot_head() {
  core::WireWriter writer;
  writer.bytes({kSnapshotMagic.data(), kSnapshotMagic.size()});
  writer.u32(kSnapshotVersion);
  writer.u32(crc32c(writer.view()));
  return writer.take();
}

Result<std::uint32_t> read_snapshot_head(ByteView head) {
  core::WireReader reader(head);
  const ByteView magic = reader.bytes(kSnapshotMagic.size());
  const std::uint32_t version = reader.u32();
  const std::size_t summed = reader.position();
  const std::uint32_t sum = reader.u32();
  if (!reader.ok() || reader.remaining() != 0) return malformed("the file's head is incomplete");
  if (std::string_view(reinterpret_cast<const char*>(magic.data), magic.size) != kSnapshotMagic) {
    return malformed("the file does not begin as a snapshot does");
  }
  if (sum != crc32c({head.data, summed})) {
    return malformed("the file's head does not match its checksum");
  }
  if (version >= 1 && version <= kSnapshotVersion) return version;
  return Status(StatusCode::kVersionMismatch,
                "the file has format version " + std::to_string(version) +
                    ", and this build reads versions 1 to " + std::to_string(kSnapshotVersion));
}

std::vector<std::byte> snapshot_record(SnapshotRecord kind, ByteView content) {
  core::WireWriter writer;
  writer.u8(static_cast<std::uint8_t>(kind));
  writer.blob(content);
  writer.u32(crc32c(writer.view()));
  return writer.take();
}

std::vector<std::byte> snapshot_checksum(std::uint32_t sum) {
  core::WireWriter writer;
  writer.u32(sum);
  return writer.take();
}

std::uint32_t add_to_structure(std::uint32_t structure, ByteView bytes) {
  const std::byte* const sum = bytes.data + bytes.size - kSnapshotChecksumBytes;
  return crc32c({sum, kSnapshotChecksumBytes}, structure);
}

}  // namespace farwrite::box
