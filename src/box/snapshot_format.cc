#include "box/snapshot_format.h"

#include <limits>
#include <optional>
#include <string>

#include "box/crc32c.h"
#include "core/wire.h"

namespace farwrite::box {
namespace {

Status invalid(const std::string& cause) { return Status(StatusCode::kInvalidArgument, cause); }

Status malformed(const std::string& cause) { return Status(StatusCode::kProtocolError, cause); }

// Nothing if the size does not fit into 64 bits.
std::optional<std::uint64_t> bytes_of_all(const SegmentSpec& spec) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  for (const std::uint64_t dim : spec.dims) {
    if (dim == 0) return 0;
  }
  std::uint64_t bytes = bytes_of(spec.type);
  for (const std::uint64_t dim : spec.dims) {
    if (bytes > kMost / dim) return std::nullopt;
    bytes *= dim;
  }
  return bytes;
}

// What finish() would report names a peer. In a file, the place is what helps.
std::string left_over(const core::WireReader& reader, std::size_t size) {
  return (reader.ok() ? "it has bytes too many from byte "
                      : "it does not hold the field at byte ") +
         std::to_string(reader.position()) + " of " + std::to_string(size);
}

}  // namespace

Status SnapshotEntry::check() const {
  if (spec.name.empty() || spec.name.size() > kMaxNameBytes) {
    return invalid("a name of " + std::to_string(spec.name.size()) + " bytes, where 1 to " +
                   std::to_string(kMaxNameBytes) + " are allowed");
  }
  if (spec.type > ElementType::kInt64) {
    return invalid("element type " + std::to_string(static_cast<int>(spec.type)) + " is unknown");
  }
  if (spec.dims.size() > kMaxRank) {
    return invalid("a rank of " + std::to_string(spec.dims.size()) + ", where at most " +
                   std::to_string(kMaxRank) + " is allowed");
  }
  if (spec.description.size() > kMaxDescription) {
    return invalid("a description of " + std::to_string(spec.description.size()) +
                   " bytes, where at most " + std::to_string(kMaxDescription) + " are allowed");
  }
  if (spec.buffers < 2 || spec.buffers > kMaxBuffers) {
    return invalid(std::to_string(spec.buffers) + " buffers, where 2 to " +
                   std::to_string(kMaxBuffers) + " are allowed");
  }
  const std::optional<std::uint64_t> expected = bytes_of_all(spec);
  if (!expected.has_value()) return invalid("a shape of more bytes than 64 bits can count");
  if (*expected == bytes) return Status();
  return invalid("a size of " + std::to_string(bytes) + " bytes, where the shape makes " +
                 std::to_string(*expected));
}

std::vector<std::byte> SnapshotEntry::to_bytes() const {
  core::WireWriter writer;
  writer.u64(key);
  writer.u64(version);
  writer.u64(bytes);
  writer.string(spec.name);
  writer.u8(static_cast<std::uint8_t>(spec.type));
  writer.u8(spec.temporary ? 1 : 0);
  writer.u32(spec.buffers);
  writer.u8(static_cast<std::uint8_t>(spec.dims.size()));
  for (const std::uint64_t dim : spec.dims) writer.u64(dim);
  writer.string(spec.description);
  return writer.take();
}

Result<SnapshotEntry> SnapshotEntry::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  SnapshotEntry entry;
  entry.key = reader.u64();
  entry.version = reader.u64();
  entry.bytes = reader.u64();
  entry.spec.name = reader.string(kMaxNameBytes);
  entry.spec.type = static_cast<ElementType>(reader.u8());
  const std::uint8_t temporary = reader.u8();
  entry.spec.temporary = temporary == 1;
  entry.spec.buffers = reader.u32();
  const std::size_t rank = reader.u8();
  if (rank > kMaxRank) return malformed("it has a rank of " + std::to_string(rank));
  for (std::size_t i = 0; i < rank; ++i) entry.spec.dims.push_back(reader.u64());
  entry.spec.description = reader.string(kMaxDescription);
  if (!reader.ok() || reader.remaining() != 0) return malformed(left_over(reader, bytes.size));
  if (temporary > 1) return malformed("its mark of a temporary segment is neither 0 nor 1");
  const Status status = entry.check();
  if (!status.ok()) return malformed("it has " + status.message());
  return entry;
}

std::vector<std::byte> SnapshotEnd::to_bytes() const {
  core::WireWriter writer;
  writer.u64(segments);
  writer.u64(file_bytes);
  writer.u32(structure);
  return writer.take();
}

Result<SnapshotEnd> SnapshotEnd::from_bytes(ByteView bytes) {
  core::WireReader reader(bytes);
  SnapshotEnd end;
  end.segments = reader.u64();
  end.file_bytes = reader.u64();
  end.structure = reader.u32();
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

Status check_snapshot_head(ByteView head) {
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
  if (version == kSnapshotVersion) return Status();
  return Status(StatusCode::kVersionMismatch,
                "the file has format version " + std::to_string(version) +
                    ", and this build reads version " + std::to_string(kSnapshotVersion));
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
