#include "core/region_descriptor.h"

#include <array>
#include <string>

#include "core/fields.h"

namespace farwrite {
namespace {

constexpr core::Reading kReading = {.operation = "decode a descriptor",
                                    .remedy = "pass the bytes of a descriptor unchanged"};

// What every descriptor has. Records of `tail_bytes` follow, and a reader skips types that it does
// not know.
struct Prefix {
  RegionDescriptor& of;
  std::uint16_t tail_bytes = 0;

  template <typename Wire>
  void fields(Wire& wire) {
    std::uint16_t version = RegionDescriptor::kVersion;
    wire(version);
    if constexpr (Wire::kReads) {
      if (wire.ok() && version != RegionDescriptor::kVersion) {
        return wire.fail(Status::error(StatusCode::kVersionMismatch, {kReading.operation},
                                       "its version is " + std::to_string(version) +
                                           ", this library supports " +
                                           std::to_string(RegionDescriptor::kVersion),
                                       "run the same Farwrite release on both sides"));
      }
    }
    wire(tail_bytes, of.access, core::Reserved<3>(), of.device_uuid, of.epoch, of.region_id,
         of.offset, of.length);
    wire.require(of.access == Access::kRead || of.access == Access::kWrite,
                 "its access rights are neither read nor write");
    wire.require(of.offset + of.length >= of.offset, "its offset and length overflow");
  }
};

struct RecordHead {
  std::uint16_t type = 0;
  std::uint16_t length = 0;

  template <typename Wire>
  void fields(Wire& wire) {
    wire(type, length);
  }
};

struct KeyRecord {
  static constexpr RecordHead kHead = {1, 16};
  FabricKey key = {};

  template <typename Wire>
  void fields(Wire& wire) {
    wire(key.fabric, core::Reserved<7>(), key.key);
  }
};

struct GpuRecord {
  static constexpr RecordHead kHead = {2, 16};
  std::array<std::uint8_t, 16> uuid{};

  template <typename Wire>
  void fields(Wire& wire) {
    wire(uuid);
  }
};

template <typename Record>
void append(core::WireWriter& tail, const Record& record) {
  core::write(Record::kHead, tail);
  core::write(record, tail);
}

}  // namespace

std::vector<std::byte> RegionDescriptor::to_bytes() const {
  core::WireWriter tail;
  for (const FabricKey& key : keys) append(tail, KeyRecord{key});
  if (gpu.has_value()) append(tail, GpuRecord{*gpu});
  RegionDescriptor of = *this;
  std::vector<std::byte> bytes =
      core::to_bytes(Prefix{of, static_cast<std::uint16_t>(tail.size())});
  bytes.insert(bytes.end(), tail.buffer().begin(), tail.buffer().end());
  return bytes;
}

Result<RegionDescriptor> RegionDescriptor::from_bytes(ByteView bytes) {
  RegionDescriptor descriptor;
  Prefix prefix{descriptor};
  ByteView tail;
  core::FieldReader reader(bytes);
  reader.require(bytes.size <= kMaxBytes, "it is longer than 1024 bytes");
  reader(prefix, core::rest(tail));
  reader.require(tail.size == prefix.tail_bytes, "its length is not that of its records");
  FARWRITE_RETURN_IF_ERROR(reader.finish(kReading));

  core::FieldReader records(tail);
  while (records.remaining() > 0) {
    RecordHead head;
    std::vector<std::byte> body;
    records(head);
    records.exactly(body, head.length);
    if (!records.ok()) break;
    const ByteView content(body.data(), body.size());
    if (head.type == KeyRecord::kHead.type) {
      Result<KeyRecord> read = core::from_bytes<KeyRecord>(content, kReading);
      if (!read.ok()) return read.status();
      descriptor.keys.push_back(read->key);
    } else if (head.type == GpuRecord::kHead.type) {
      Result<GpuRecord> read = core::from_bytes<GpuRecord>(content, kReading);
      if (!read.ok()) return read.status();
      descriptor.gpu = read->uuid;
    }
  }
  FARWRITE_RETURN_IF_ERROR(records.finish(kReading));
  return descriptor;
}

}  // namespace farwrite
