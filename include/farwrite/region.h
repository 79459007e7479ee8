/// @file
/// Registered memory: a MemoryRegion at its owner, a RegionDescriptor on the wire, a RemoteRegion
/// at the peer.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/completion.h"
#include "farwrite/export.h"
#include "farwrite/memory_kind.h"
#include "farwrite/options.h"
#include "farwrite/status.h"

namespace farwrite {

class Channel;

namespace device {
class RegionState;
class RemoteRegionState;
}  // namespace device

/// The longest name of a published region, in bytes.
inline constexpr std::size_t kMaxNameBytes = 255;
/// The longest description of a published region, in bytes.
inline constexpr std::size_t kMaxDescriptionBytes = 1024;

/// How a peer may use a region.
enum class Access : std::uint8_t {
  kRead = 1,   ///< read or alias it
  kWrite = 2,  ///< write it
};

/// Identifies a device. It stays the same over restarts on the same endpoint of the same host; the
/// epoch distinguishes the starts.
using DeviceUuid = std::array<std::uint8_t, 16>;

/// The key of a region in one fabric.
struct FabricKey {
  FabricKind fabric = FabricKind::kShm;  ///< the fabric that made the key
  std::uint64_t key = 0;                 ///< each fabric defines its meaning
};

/// The data that a peer needs to reach a region. It is a value: copy, send and store it freely. A
/// descriptor of an older epoch fails with kPeerRestarted and never reaches other memory.
///
/// Wire format, little-endian, version 1:
///
///      0  u16 version        2  u16 tail length      4  u8 access    5  3 zero bytes
///      8  u8[16] device uuid 24 u64 epoch           32  u64 region id
///      40 u64 offset         48 u64 length          56  tail: records {u16 type, u16 length,
///      bytes}
///
/// Record type 1 is a fabric key {u8 fabric, 7 zero bytes, u64 key}. Record type 2 is the UUID of
/// the GPU that has the memory {u8[16]}. Unknown types are skipped.
struct FARWRITE_API RegionDescriptor {
  static constexpr std::uint16_t kVersion = 1;     ///< version of the wire format
  static constexpr std::size_t kPrefixBytes = 56;  ///< length of the part before the tail
  static constexpr std::size_t kMaxBytes = 1024;   ///< longest wire format, in bytes

  DeviceUuid device_uuid{};       ///< the device that owns the region
  std::uint64_t epoch = 0;        ///< the start of that device, see Device::epoch()
  std::uint64_t region_id = 0;    ///< unique among the regions of one epoch
  std::uint64_t offset = 0;       ///< position of the first byte in the registered segment
  std::uint64_t length = 0;       ///< bytes
  Access access = Access::kRead;  ///< how the peer may use the region
  std::vector<FabricKey> keys;    ///< one for each fabric that reaches the region
  /// The GPU that has the memory, by the UUID that the CUDA driver gives it; none: host memory.
  std::optional<std::array<std::uint8_t, 16>> gpu;

  /// The wire format, at most kMaxBytes long.
  std::vector<std::byte> to_bytes() const;
  /// Parses the wire format. kVersionMismatch for an unknown version, kProtocolError for malformed
  /// or truncated bytes.
  static Result<RegionDescriptor> from_bytes(ByteView bytes);
};

/// Local memory that peers can reach. It is a handle: copies share the region. The memory stays
/// valid until the last handle is gone, and it is reused only when no peer can access it any more.
/// The handle is thread-safe; the user synchronizes access to the bytes.
class FARWRITE_API MemoryRegion {
 public:
  MemoryRegion() = default;
  /// @private Made by allocate() of a Device or a Channel.
  explicit MemoryRegion(std::shared_ptr<device::RegionState> state) : state_(std::move(state)) {}

  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return state_ != nullptr; }
  /// The first byte, 64-byte aligned; owned by the region. On a GPU: its device pointer.
  std::byte* data() const;
  std::size_t size() const;  ///< bytes
  MemoryKind kind() const;   ///< where the memory lies
  Access access() const;     ///< how peers may use the region
  /// What a peer passes to Channel::open(). Valid for this epoch of the device.
  RegionDescriptor descriptor() const;

  /// Ends the peers' access. A second close() is ok. Dropping the last handle also closes the
  /// region.
  ///
  /// For a region that a peer may write, this returns only when no later byte can land. kPeerSilent
  /// means that the peer did not settle within `timeout`. The memory is then quarantined: it is not
  /// reused until the peer's death is proven or the peer settles. A region that peers read accepts
  /// no new lease, and its memory is not reused while earlier leases are held.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  friend class Device;
  friend class Channel;
  std::shared_ptr<device::RegionState> state_;
};

/// A peer's region, opened through a channel. It is checked, mapped where the fabric maps memory,
/// and leased, so that its owner cannot reuse the memory during a read. Copies share the lease. It
/// is released when the last copy and the last Alias are gone.
class FARWRITE_API RemoteRegion {
 public:
  RemoteRegion() = default;
  /// @private Made by Channel::lookup() and Channel::open().
  explicit RemoteRegion(std::shared_ptr<device::RemoteRegionState> state)
      : state_(std::move(state)) {}

  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return state_ != nullptr; }
  std::size_t size() const;  ///< bytes
  Access access() const;     ///< how this side may use the region
  /// Where the memory lies, as this process numbers its GPUs. Host memory until it is reached(),
  /// and over fabrics that do not map it.
  MemoryKind kind() const;
  const RegionDescriptor& descriptor() const;  ///< valid as long as this handle
  /// The description that the owner published; empty if the region was opened by descriptor.
  const std::string& description() const;
  /// False for lent memory whose first view may have to wait for the peer.
  bool reached() const;

 private:
  friend class Channel;
  friend Channel channel_of(const RemoteRegion& region);
  std::shared_ptr<device::RemoteRegionState> state_;
};

/// A read-only view of the peer's bytes, without a copy. It holds the lease. It may outlive the
/// channel and the peer. After the peer's death the bytes keep their last contents.
class FARWRITE_API Alias {
 public:
  Alias() = default;
  /// @private Made by Channel::alias().
  Alias(std::shared_ptr<device::RemoteRegionState> state, ByteView bytes)
      : state_(std::move(state)), bytes_(bytes) {}

  /// Valid as long as a copy of this Alias. For memory on a GPU: a device pointer.
  const std::byte* data() const { return bytes_.data; }
  std::size_t size() const { return bytes_.size; }  ///< bytes
  MemoryKind kind() const;                          ///< where the bytes lie; of none: the host

 private:
  std::shared_ptr<device::RemoteRegionState> state_;
  ByteView bytes_;
};

}  // namespace farwrite
