#include <algorithm>

#include "core/wire.h"
#include "farwrite/region.h"

namespace farwrite {
namespace {

constexpr std::uint16_t kFabricKeyRecord = 1;
constexpr std::size_t kFabricKeyBytes = 16;
constexpr std::uint16_t kGpuRecord = 2;
constexpr std::size_t kGpuBytes = 16;

}  // namespace

std::vector<std::byte> RegionDescriptor::to_bytes() const {
  core::WireWriter writer;
  writer.u16(kVersion);
  writer.u16(static_cast<std::uint16_t>(keys.size() * (4 + kFabricKeyBytes) +
                                        (gpu.has_value() ? 4 + kGpuBytes : 0)));
  writer.u8(static_cast<std::uint8_t>(access));
  for (int i = 0; i < 3; ++i) writer.u8(0);
  writer.bytes({device_uuid.data(), device_uuid.size()});
  writer.u64(epoch);
  writer.u64(region_id);
  writer.u64(offset);
  writer.u64(length);
  for (const FabricKey& key : keys) {
    writer.u16(kFabricKeyRecord);
    writer.u16(kFabricKeyBytes);
    writer.u8(static_cast<std::uint8_t>(key.fabric));
    for (int i = 0; i < 7; ++i) writer.u8(0);
    writer.u64(key.key);
  }
  if (gpu.has_value()) {
    writer.u16(kGpuRecord);
    writer.u16(kGpuBytes);
    writer.bytes({gpu->data(), gpu->size()});
  }
  return writer.take();
}

Result<RegionDescriptor> RegionDescriptor::from_bytes(ByteView bytes) {
  constexpr std::string_view kOperation = "decode a region descriptor";
  const auto malformed = [&](std::string_view cause) {
    return Status::error(StatusCode::kProtocolError, {kOperation}, cause,
                         "pass the bytes of a descriptor unchanged");
  };
  if (bytes.size > kMaxBytes) return malformed("it is longer than 1024 bytes");

  core::WireReader reader(bytes);
  const std::uint16_t version = reader.u16();
  if (reader.ok() && version != kVersion) {
    return Status::error(StatusCode::kVersionMismatch, {kOperation},
                         "its version is " + std::to_string(version) + ", this library supports " +
                             std::to_string(kVersion),
                         "run the same Farwrite release on both sides");
  }
  const std::uint16_t tail_bytes = reader.u16();
  RegionDescriptor descriptor;
  const std::uint8_t access = reader.u8();
  reader.bytes(3);
  const ByteView uuid = reader.bytes(descriptor.device_uuid.size());
  descriptor.epoch = reader.u64();
  descriptor.region_id = reader.u64();
  descriptor.offset = reader.u64();
  descriptor.length = reader.u64();
  const ByteView tail = reader.bytes(tail_bytes);
  FARWRITE_RETURN_IF_ERROR(reader.finish(kOperation));

  if (access != static_cast<std::uint8_t>(Access::kRead) &&
      access != static_cast<std::uint8_t>(Access::kWrite)) {
    return malformed("its access rights are neither read nor write");
  }
  descriptor.access = static_cast<Access>(access);
  std::copy_n(reinterpret_cast<const std::uint8_t*>(uuid.data), uuid.size,
              descriptor.device_uuid.begin());
  if (descriptor.offset + descriptor.length < descriptor.offset) {
    return malformed("its offset and length overflow");
  }

  core::WireReader records(tail);
  while (records.remaining() > 0) {
    const std::uint16_t type = records.u16();
    const std::uint16_t length = records.u16();
    core::WireReader body(records.bytes(length));
    if (type == kGpuRecord) {
      const ByteView gpu = body.bytes(kGpuBytes);
      FARWRITE_RETURN_IF_ERROR(body.finish(kOperation));
      std::copy_n(reinterpret_cast<const std::uint8_t*>(gpu.data), gpu.size,
                  descriptor.gpu.emplace().begin());
      continue;
    }
    if (type != kFabricKeyRecord) continue;
    FabricKey key;
    key.fabric = static_cast<FabricKind>(body.u8());
    body.bytes(7);
    key.key = body.u64();
    FARWRITE_RETURN_IF_ERROR(body.finish(kOperation));
    descriptor.keys.push_back(key);
  }
  FARWRITE_RETURN_IF_ERROR(records.finish(kOperation));
  return descriptor;
}

}  // namespace farwrite
