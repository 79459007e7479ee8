// Registered memory: a MemoryRegion here, a RegionDescriptor on the wire, a RemoteRegion there.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/completion.h"
#include "farwrite/export.h"
#include "farwrite/options.h"
#include "farwrite/status.h"

namespace farwrite {

namespace device {
class RegionState;
class RemoteRegionState;
}  // namespace device

// Names and descriptions of published regions may be this long, in bytes.
inline constexpr std::size_t kMaxNameBytes = 255;
inline constexpr std::size_t kMaxDescriptionBytes = 1024;

// What a peer may do with a region.
enum class Access : std::uint8_t {
  kRead = 1,   // read or alias it
  kWrite = 2,  // write it
};

// Names a device. Stable over restarts on the same endpoint of the same host; the epoch tells the
// starts apart.
using DeviceUuid = std::array<std::uint8_t, 16>;

struct FabricKey {
  FabricKind fabric = FabricKind::kShm;
  std::uint64_t key = 0;  // meaning is the fabric's own
};

// What a peer needs to reach a region. A value: copy it, send it, keep it. A descriptor of an older
// epoch fails with kPeerRestarted and never reaches somebody else's memory.
//
// Wire form, little-endian, version 1:
//   0  u16 version        2  u16 tail length      4  u8 access    5  3 zero bytes
//   8  u8[16] device uuid 24 u64 epoch           32  u64 region id
//   40 u64 offset         48 u64 length          56  tail: records {u16 type, u16 length, bytes}
// Record type 1 is a fabric key {u8 fabric, 7 zero bytes, u64 key}; unknown types are skipped.
struct FARWRITE_API RegionDescriptor {
  static constexpr std::uint16_t kVersion = 1;
  static constexpr std::size_t kPrefixBytes = 56;
  static constexpr std::size_t kMaxBytes = 1024;

  DeviceUuid device_uuid{};
  std::uint64_t epoch = 0;
  std::uint64_t region_id = 0;
  std::uint64_t offset = 0;  // of the region's first byte inside its registered segment
  std::uint64_t length = 0;  // bytes
  Access access = Access::kRead;
  std::vector<FabricKey> keys;

  std::vector<std::byte> to_bytes() const;
  // kVersionMismatch for an unknown version, kProtocolError for anything malformed or truncated.
  static Result<RegionDescriptor> from_bytes(ByteView bytes);
};

// Local memory that peers can reach. A handle: copies share the region. The memory stays valid
// until the last handle is gone, and is not reused before no peer can touch it any more.
// Thread-safe, except that the bytes themselves are the user's to synchronize.
class FARWRITE_API MemoryRegion {
 public:
  MemoryRegion() = default;
  explicit MemoryRegion(std::shared_ptr<device::RegionState> state) : state_(std::move(state)) {}

  bool valid() const { return state_ != nullptr; }
  std::byte* data() const;
  std::size_t size() const;
  Access access() const;
  RegionDescriptor descriptor() const;

  // Ends the peers' access. For a region that a peer may write it returns only when no later byte
  // can land; kPeerSilent says that the peer did not settle within `timeout`, and the memory is
  // quarantined: not reused until the peer's death is proven or it settles. A region that peers
  // read takes no new lease from now on, and leases under way keep its memory from being reused.
  // Closing twice is ok. Dropping the last handle closes, too.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  friend class Device;
  friend class Channel;
  std::shared_ptr<device::RegionState> state_;
};

// A peer's region, opened through a channel: checked, mapped where the fabric maps, and leased, so
// that its owner cannot reuse the memory under our reads. Copies share the lease; it is released
// when the last copy and the last Alias are gone.
class FARWRITE_API RemoteRegion {
 public:
  RemoteRegion() = default;
  explicit RemoteRegion(std::shared_ptr<device::RemoteRegionState> state)
      : state_(std::move(state)) {}

  bool valid() const { return state_ != nullptr; }
  std::size_t size() const;
  Access access() const;
  const RegionDescriptor& descriptor() const;
  // What the owner said of it when publishing; empty if it was opened by descriptor.
  const std::string& description() const;
  // False for lent memory whose first view may have to wait for the peer.
  bool reached() const;

 private:
  friend class Channel;
  std::shared_ptr<device::RemoteRegionState> state_;
};

// A read-only view of the peer's own bytes: no copy. Holds the lease. It may outlive the channel
// and the peer; after the peer's death the bytes stay as they last were.
class FARWRITE_API Alias {
 public:
  Alias() = default;
  Alias(std::shared_ptr<device::RemoteRegionState> state, ByteView bytes)
      : state_(std::move(state)), bytes_(bytes) {}

  const std::byte* data() const { return bytes_.data; }
  std::size_t size() const { return bytes_.size; }

 private:
  std::shared_ptr<device::RemoteRegionState> state_;
  ByteView bytes_;
};

}  // namespace farwrite
