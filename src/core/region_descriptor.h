// RegionDescriptor: what a peer needs to reach a region, and its wire format.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/options.h"
#include "farwrite/region_types.h"
#include "farwrite/status.h"

namespace farwrite {

// The key of a region in one fabric.
struct FabricKey {
  FabricKind fabric = FabricKind::kShm;  // the fabric that made the key
  std::uint64_t key = 0;                 // each fabric defines its meaning
};

// The data that a peer needs to reach a region. It is a value: copy, send and store it freely. A
// descriptor of an older epoch fails with kPeerRestarted and never reaches other memory.
//
// Wire format, little-endian, version 1:
//
//      0  u16 version        2  u16 tail length      4  u8 access    5  3 zero bytes
//      8  u8[16] device uuid 24 u64 epoch           32  u64 region id
//      40 u64 offset         48 u64 length          56  tail: records {u16 type, u16 length,
//      bytes}
//
// Record type 1 is a fabric key {u8 fabric, 7 zero bytes, u64 key}. Record type 2 is the UUID of
// the GPU that has the memory {u8[16]}. Unknown types are skipped.
struct RegionDescriptor {
  static constexpr std::uint16_t kVersion = 1;     // version of the wire format
  static constexpr std::size_t kPrefixBytes = 56;  // length of the part before the tail
  static constexpr std::size_t kMaxBytes = 1024;   // longest wire format, in bytes

  DeviceUuid device_uuid{};       // the device that owns the region
  std::uint64_t epoch = 0;        // the start of that device, see Device::epoch()
  std::uint64_t region_id = 0;    // unique among the regions of one epoch
  std::uint64_t offset = 0;       // position of the first byte in the registered segment
  std::uint64_t length = 0;       // bytes
  Access access = Access::kRead;  // how the peer may use the region
  std::vector<FabricKey> keys;    // one for each fabric that reaches the region
  // The GPU that has the memory, by the UUID that the CUDA driver gives it; none: host memory.
  std::optional<std::array<std::uint8_t, 16>> gpu;

  // The wire format, at most kMaxBytes long.
  std::vector<std::byte> to_bytes() const;
  // Parses the wire format. kVersionMismatch for an unknown version, kProtocolError for malformed
  // or truncated bytes.
  static Result<RegionDescriptor> from_bytes(ByteView bytes);
};

}  // namespace farwrite
