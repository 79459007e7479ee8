// The form of a snapshot file, and its codec. Integers are little-endian.
//
//   file    = head, segment..., end
//   head    = u8[8] magic, u32 version, u32 checksum of these 12 bytes
//   segment = record of kind 1 that holds a SnapshotEntry, its data, u32 checksum of the data
//   end     = record of kind 2 that holds u64 segments, u64 bytes of the file, u32 structure
//   record  = u8 kind, u32 length, as many bytes, u32 checksum of all these
//
// Every checksum is a CRC-32C. `structure` is the checksum of all checksums in front of the end
// record, in their order: a sum over the records themselves would be blind, because bytes and their
// own CRC together add nothing to a CRC. The head keeps its form in every later version.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "box/box.h"
#include "core/region.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"

namespace farwrite::box {

// One segment of a snapshot, without its data.
struct SnapshotEntry {
  SegmentSpec spec;
  std::uint64_t key = 0;
  VersionId id = {};
  std::uint64_t bytes = 0;  // of the data

  // Ok if `spec` has passed checked_bytes(), with `bytes` as its result. kInvalidArgument.
  Status check() const;

  template <typename Wire>
  void fields(Wire& wire);
  // The content of a segment's record.
  std::vector<std::byte> to_bytes() const;
  // kProtocolError, with the cause alone as its message, for bytes that to_bytes() cannot make from
  // an entry that passes check().
  static Result<SnapshotEntry> from_bytes(ByteView bytes);
  // The same, of a file of version 1. The epoch is 0.
  static Result<SnapshotEntry> from_version_1(ByteView bytes);
};

// The last record.
struct SnapshotEnd {
  std::uint64_t segments = 0;
  std::uint64_t file_bytes = 0;
  std::uint32_t structure = 0;

  template <typename Wire>
  void fields(Wire& wire);
  std::vector<std::byte> to_bytes() const;
  // Same errors as for SnapshotEntry.
  static Result<SnapshotEnd> from_bytes(ByteView bytes);
};

inline constexpr std::string_view kSnapshotMagic = "fwboxsnp";
// Version 1 had no epochs.
inline constexpr std::uint32_t kSnapshotVersion = 2;
inline constexpr std::size_t kSnapshotChecksumBytes = 4;
inline constexpr std::size_t kSnapshotHeadBytes = 16;
// The kind and the length of a record.
inline constexpr std::size_t kSnapshotRecordPrefix = 5;
// The longest content of a record: an entry with the longest name and description.
inline constexpr std::size_t kSnapshotRecordLimit =
    64 + kMaxNameBytes + 8 * kMaxRank + kMaxDescription;
// Data is written, read and summed in pieces of this size.
inline constexpr std::size_t kSnapshotPiece = std::size_t{4} << 20;

enum class SnapshotRecord : std::uint8_t { kSegment = 1, kEnd = 2 };

// The head of a file that this build writes.
std::vector<std::byte> snapshot_head();
// The version of a head that this build reads. kVersionMismatch for a whole head of another
// version, otherwise kProtocolError. The message is the cause alone.
Result<std::uint32_t> read_snapshot_head(ByteView head);

// A whole record with its checksum.
std::vector<std::byte> snapshot_record(SnapshotRecord kind, ByteView content);

// A checksum as it stands in the file.
std::vector<std::byte> snapshot_checksum(std::uint32_t sum);

// `structure` with the checksum that `bytes` end with: a head, a record or a checksum.
std::uint32_t add_to_structure(std::uint32_t structure, ByteView bytes);

}  // namespace farwrite::box
