/// @file
/// Registered memory: a MemoryRegion at its owner, a RegionDescriptor on the wire, a RemoteRegion
/// at the peer.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "farwrite/bytes.h"
#include "farwrite/c_memory.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/memory_kind.h"
#include "farwrite/region_types.h"
#include "farwrite/status.h"

FARWRITE_BEGIN

/// The data that a peer needs to reach a region. It is a value: copy, send and store it freely. A
/// descriptor of an older epoch fails with kPeerRestarted and never reaches other memory. What its
/// bytes mean is written in docs/reference/protocol.md.
class RegionDescriptor {
 public:
  static constexpr std::size_t kMaxBytes = FW_MAX_DESCRIPTOR_BYTES;  ///< longest, in bytes

  RegionDescriptor() = default;
  /// Keeps the bytes of a descriptor. kProtocolError for too many; Channel::open() checks the rest.
  static Result<RegionDescriptor> from_bytes(ByteView bytes) {
    if (bytes.size > kMaxBytes) {
      return Status::error(StatusCode::kProtocolError, {"decode a descriptor"},
                           "it is longer than " + std::to_string(kMaxBytes) + " bytes",
                           "pass the bytes of a descriptor unchanged");
    }
    RegionDescriptor descriptor;
    descriptor.bytes_.assign(bytes.data, bytes.data + bytes.size);
    return descriptor;
  }
  /// At most kMaxBytes; empty for a default-constructed one, which no channel opens.
  std::vector<std::byte> to_bytes() const { return bytes_; }

  /// @private What `write(buffer, capacity)` writes, as fw_region_describe() does.
  template <typename Write>
  static RegionDescriptor of(const Write& write) {
    RegionDescriptor descriptor;
    descriptor.bytes_.resize(kMaxBytes);
    descriptor.bytes_.resize(write(descriptor.bytes_.data(), kMaxBytes));
    return descriptor;
  }

 private:
  std::vector<std::byte> bytes_;
};

namespace internal {

/// @private Where memory lies, by what the C ABI says of it.
inline MemoryKind kind_of(int gpu) { return gpu < 0 ? MemoryKind() : MemoryKind::cuda(gpu); }

/// @private A peer's region, and what the owner said of it.
struct OpenRemote {
  explicit OpenRemote(Only<fw_remote> remote)
      : handle(std::move(remote)), description(fw_remote_description(handle.get())) {}

  const Only<fw_remote> handle;
  const std::string description;
};

}  // namespace internal

/// Local memory that peers can reach. It is a handle: copies share the region. The memory stays
/// valid until the last handle is gone, and it is reused only when no peer can access it any more.
/// The handle is thread-safe; the user synchronizes access to the bytes.
class MemoryRegion {
 public:
  MemoryRegion() = default;
  /// @private Made by allocate() of a Device or a Channel, takes the handle over.
  explicit MemoryRegion(fw_region* handle) : handle_(internal::owned(handle, fw_region_release)) {}
  /// @private
  fw_region* handle() const { return handle_.get(); }

  /// False for a handle that was default-constructed or moved from. It allows no other call.
  bool valid() const { return handle_ != nullptr; }
  /// The first byte, 64-byte aligned; owned by the region. On a GPU: its device pointer.
  std::byte* data() const { return static_cast<std::byte*>(fw_region_data(handle_.get())); }
  std::size_t size() const { return fw_region_bytes(handle_.get()); }  ///< bytes
  /// Where the memory lies.
  MemoryKind kind() const { return internal::kind_of(fw_region_gpu(handle_.get())); }
  /// How peers may use the region.
  Access access() const { return static_cast<Access>(fw_region_access(handle_.get())); }
  /// What a peer passes to Channel::open(). Valid for this epoch of the device.
  RegionDescriptor descriptor() const {
    return RegionDescriptor::of([this](void* buffer, std::uint64_t capacity) {
      return fw_region_describe(handle_.get(), buffer, capacity);
    });
  }

  /// Ends the peers' access. A second close() is ok. Dropping the last handle also closes the
  /// region.
  ///
  /// For a region that a peer may write, this returns only when no later byte can land. kPeerSilent
  /// means that the peer did not settle within `timeout`. The memory is then quarantined: it is not
  /// reused until the peer's death is proven or the peer settles. A region that peers read accepts
  /// no new lease, and its memory is not reused while earlier leases are held.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1)) {
    return internal::taken(fw_region_close(handle_.get(), internal::to_ns(timeout)));
  }

 private:
  std::shared_ptr<fw_region> handle_;
};

/// A peer's region, opened through a channel. It is checked, mapped where the fabric maps memory,
/// and leased, so that its owner cannot reuse the memory during a read. Copies share the lease. It
/// is released when the last copy and the last Alias are gone. A channel that no handle of it holds
/// any more stays open as long as one of its regions is held; close() ends it at once.
class RemoteRegion {
 public:
  RemoteRegion() = default;
  /// @private Made by a Channel, takes the handle over.
  explicit RemoteRegion(fw_remote* handle)
      : open_(std::make_shared<internal::OpenRemote>(internal::only(handle, fw_remote_release))) {}
  /// @private
  fw_remote* handle() const { return open_ == nullptr ? nullptr : open_->handle.get(); }

  /// False for a handle that was default-constructed or moved from. It allows no other call.
  bool valid() const { return open_ != nullptr; }
  std::size_t size() const { return fw_remote_bytes(handle()); }  ///< bytes
  /// How this side may use the region.
  Access access() const { return static_cast<Access>(fw_remote_access(handle())); }
  /// Where the memory lies, as this process numbers its GPUs. Host memory until it is reached(),
  /// and over fabrics that do not map it.
  MemoryKind kind() const { return internal::kind_of(fw_remote_gpu(handle())); }
  /// What it was opened with.
  RegionDescriptor descriptor() const {
    return RegionDescriptor::of([this](void* buffer, std::uint64_t capacity) {
      return fw_remote_describe(handle(), buffer, capacity);
    });
  }
  /// The description that the owner published; empty if the region was opened by descriptor.
  const std::string& description() const { return open_->description; }
  /// False for lent memory whose first view may have to wait for the peer.
  bool reached() const { return fw_remote_ready(handle()) != 0; }

 private:
  std::shared_ptr<const internal::OpenRemote> open_;
};

/// A read-only view of the peer's bytes, without a copy. It holds the lease. It may outlive the
/// channel and the peer. After the peer's death the bytes keep their last contents.
class Alias {
 public:
  Alias() = default;
  /// @private Made by Channel::alias(), takes the lease over.
  Alias(const fw_slice& view, MemoryKind kind)
      : lease_(internal::owned(view.lease, fw_lease_release)),
        bytes_(view.data, view.bytes),
        kind_(kind) {}

  /// Valid as long as a copy of this Alias. For memory on a GPU: a device pointer.
  const std::byte* data() const { return bytes_.data; }
  std::size_t size() const { return bytes_.size; }  ///< bytes
  MemoryKind kind() const { return kind_; }         ///< where the bytes lie; of none: the host

 private:
  std::shared_ptr<fw_lease> lease_;
  ByteView bytes_;
  MemoryKind kind_;
};

FARWRITE_END
