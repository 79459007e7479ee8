/// @file
/// Device: the object that a process opens. It holds fabrics, memory, pollers and one listening
/// endpoint.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "farwrite/c_device.h"
#include "farwrite/channel.h"
#include "farwrite/device_types.h"
#include "farwrite/internal/bridge.h"
#include "farwrite/internal/device_options.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/options.h"
#include "farwrite/region.h"
#include "farwrite/registration.h"
#include "farwrite/status.h"

FARWRITE_BEGIN

/// The object that a process opens: its fabrics, its memory, its pollers and one listening
/// endpoint.
///
/// Copies share the device. It closes when close() is called or the last handle is gone, of the
/// device and of the senders and streams that were made with it. A channel does not keep it open,
/// and what peers hold of its memory does not either. The device is thread-safe. A forked child
/// that uses it gets kForked. The child can read the memory that its parent had, see
/// docs/explanation/fork.md.
class Device {
 public:
  /// Opens a device: listens at options.listen, makes the fabrics, and starts the pollers.
  ///
  /// Errors: kInvalidArgument for an option that is out of range; kAlreadyExists if the port is
  /// taken; kUnavailable if the address is not one of this host; kUnauthenticated if options.token
  /// is not valid at that address; kUnsupported if the kernel refuses options.numa_node; the error
  /// of a fabric that does not start.
  static Result<Device> open(const DeviceOptions& options = {});

  Device() = default;
  /// @private Made by open(), takes the handle over.
  explicit Device(fw_device* handle) : handle_(internal::owned(handle, fw_device_release)) {}
  /// @private
  fw_device* handle() const { return handle_.get(); }
  /// False for a handle that was default-constructed or moved from. It allows no other call.
  bool valid() const { return handle_ != nullptr; }

  /// The address that peers connect to, with the selected port. The host is that of
  /// DeviceOptions::listen: for 0.0.0.0, give peers a name or an address of the host instead.
  Endpoint endpoint() const;
  /// Identifies this device, over restarts on the same endpoint of the same host.
  DeviceUuid uuid() const;
  /// Identifies this start of the device. It differs at every start.
  std::uint64_t epoch() const;

  /// Opens a channel: handshake, proof of the token, choice of the fabric. Every call makes a
  /// separate channel. While no device listens at `peer`, or its host does not resolve, it retries
  /// until `timeout`.
  Result<Channel> connect(const Endpoint& peer,
                          std::chrono::nanoseconds timeout = std::chrono::seconds(10));
  /// Waits for the next channel that a peer opens to this device.
  Result<Channel> accept(std::chrono::nanoseconds timeout = kForever);

  /// Allocates memory that peers may read or alias and only this process may write: 64-byte
  /// aligned, contents undefined. On a GPU as for Channel::allocate(); peers reach it over the
  /// fabrics that reach GPUs, and CUDA does not keep a peer with code of its own from writing it.
  Result<MemoryRegion> allocate(std::uint64_t bytes, MemoryKind kind = {});
  /// Allocates the same memory without a region, for allocators. Only Channel::lend() exposes it to
  /// a peer. nullptr when the limit is reached, when the device is closed, or in a forked child.
  std::byte* allocate_raw(std::uint64_t bytes) {
    return static_cast<std::byte*>(fw_device_allocate(handle(), bytes));
  }
  /// Frees memory from allocate_raw() of this device, even after close(). nullptr is ignored; any
  /// other pointer ends the program. No peer may hold a lease on the memory.
  void free_raw(std::byte* memory) { fw_device_deallocate(handle(), memory); }
  /// True if `pointer` lies in memory from allocate() or allocate_raw(). Lock-free.
  bool contains(const void* pointer) const { return fw_device_contains(handle(), pointer) != 0; }
  /// True if all of `memory` lies in one segment of that memory, as Channel::lend() demands.
  /// Lock-free.
  bool contains(ByteView memory) const {
    return fw_device_contains_all(handle(), memory.data, memory.size) != 0;
  }
  /// Registers the user's memory with every fabric that requires registration (verbs). Transfers
  /// from or to it then need no registration each time. Peers still cannot reach it. Writable
  /// memory serves as source and as destination. The sentence of a kResourceExhausted explains
  /// limits (`ulimit -l`).
  Result<MemoryRegistration> register_memory(MutableByteView memory) {
    return register_as(memory, memory.data, 1);
  }
  /// Registers read-only memory, which serves only as a source.
  Result<MemoryRegistration> register_memory(ByteView memory) {
    return register_as(memory, const_cast<std::byte*>(memory.data), 0);
  }
  /// Publishes `region` to every peer under `name`, with a description as for Channel::publish().
  /// It replaces an earlier region of that name. Landing memory belongs to one channel: publish it
  /// on that channel.
  Status publish(std::string_view name, const MemoryRegion& region,
                 std::string_view description = {});
  /// Removes `name`: later calls of lookup() do not find it. Peers that have opened the region keep
  /// their leases. kNotFound if this device has published nothing under `name`.
  Status unpublish(std::string_view name);

  /// The counts of this device and its channels. They are read one by one, so they may belong to
  /// different moments.
  DeviceStats stats() const;
  /// The counters of this device and of every channel, in the Prometheus text exposition format,
  /// version 0.0.4. docs/reference/metrics.md lists the names. Empty in a forked child.
  std::string metrics_text() const {
    return internal::whole_text([this](char* buffer, std::uint64_t capacity) {
      return fw_device_metrics(handle(), buffer, capacity);
    });
  }

  /// Closes every channel, then the device. kPeerSilent if a peer did not settle within `timeout`.
  /// Everything is released even then, except memory that such a peer may still access: it stays
  /// quarantined until this process or the peer ends. kFailedPrecondition inside a callback.
  ///
  /// A live peer receives what was sent. Notifications that still wait for the peer to take earlier
  /// ones are dropped, as Channel::close() describes.
  ///
  /// kDeadlineExceeded if callbacks, connect() or other threads' calls have not returned within
  /// `timeout` (nor within 100 ms). Then the device is closing: every call fails, the device
  /// releases nothing, and its channels are in the state that Channel::close() leaves. Let the
  /// callbacks return and call close() again. If the last handle is destroyed instead, a background
  /// thread closes the device.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1)) {
    return internal::taken(fw_device_close(handle(), internal::to_ns(timeout)));
  }

 private:
  fw_identity identity() const {
    fw_identity known = {};
    known.struct_size = sizeof(known);
    fw_device_identity(handle(), &known);
    return known;
  }
  Result<MemoryRegistration> register_as(ByteView memory, std::byte* start, int writable) {
    fw_registration* registration = nullptr;
    FARWRITE_RETURN_IF_ERROR(
        internal::taken(fw_device_register(handle(), start, memory.size, writable, &registration)));
    return MemoryRegistration(memory, registration);
  }

  std::shared_ptr<fw_device> handle_;
};

inline Result<Device> Device::open(const DeviceOptions& options) {
  const internal::COptions given(options);
  FARWRITE_RETURN_IF_ERROR(given.status());
  fw_device* device = nullptr;
  FARWRITE_RETURN_IF_ERROR(internal::taken(fw_device_open(given.get(), &device)));
  return Device(device);
}

inline Endpoint Device::endpoint() const { return internal::endpoint_of(identity().endpoint); }

inline DeviceUuid Device::uuid() const {
  const fw_identity known = identity();
  DeviceUuid uuid;
  std::memcpy(uuid.data(), known.uuid, uuid.size());
  return uuid;
}

inline std::uint64_t Device::epoch() const { return identity().epoch; }

inline Result<Channel> Device::connect(const Endpoint& peer, std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero("connect", "the host", peer.host));
  fw_channel* channel = nullptr;
  FARWRITE_RETURN_IF_ERROR(internal::taken(
      fw_device_connect(handle(), peer.to_string().c_str(), internal::to_ns(timeout), &channel)));
  return Channel(channel);
}

inline Result<Channel> Device::accept(std::chrono::nanoseconds timeout) {
  fw_channel* channel = nullptr;
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_device_accept(handle(), internal::to_ns(timeout), &channel)));
  return Channel(channel);
}

inline Result<MemoryRegion> Device::allocate(std::uint64_t bytes, MemoryKind kind) {
  fw_region* region = nullptr;
  FARWRITE_RETURN_IF_ERROR(
      internal::taken(fw_device_region(handle(), bytes, kind.to_string().c_str(), &region)));
  return MemoryRegion(region);
}

inline Status Device::publish(std::string_view name, const MemoryRegion& region,
                              std::string_view description) {
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero("publish", "the name", name));
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero("publish", "the description", description));
  return internal::taken(fw_device_publish(handle(), std::string(name).c_str(), region.handle(),
                                           std::string(description).c_str()));
}

inline Status Device::unpublish(std::string_view name) {
  FARWRITE_RETURN_IF_ERROR(internal::refuse_zero("unpublish", "the name", name));
  return internal::taken(fw_device_unpublish(handle(), std::string(name).c_str()));
}

namespace internal {

/// @private
inline MemoryStats to_memory_stats(const fw_memory_stats& known) {
  MemoryStats stats;
  stats.limit = known.limit;
  stats.reserved = known.reserved;
  stats.used = known.used;
  stats.peak_used = known.peak_used;
  stats.segments = known.segments;
  stats.refusals = known.refusals;
  stats.held_back = known.held_back;
  return stats;
}

}  // namespace internal

inline DeviceStats Device::stats() const {
  fw_device_counts known = {};
  known.struct_size = sizeof(known);
  fw_device_stats(handle(), &known);
  DeviceStats stats;
  stats.send = internal::to_memory_stats(known.send);
  stats.receive = internal::to_memory_stats(known.receive);
  stats.registrations = known.registrations;
  stats.adapters.segments = known.adapter_segments;
  stats.adapters.on_demand = known.adapter_on_demand;
  stats.adapters.live = known.adapter_live;
  stats.adapters.live_bytes = known.adapter_live_bytes;
  stats.adapters.nanoseconds = known.adapter_nanoseconds;
  stats.adapters.transfers = known.adapter_transfers;
  stats.adapters.transfers_registered = known.adapter_registered;
  stats.gpu.mappings = known.gpu_mappings;
  stats.gpu.mapped_bytes = known.gpu_mapped_bytes;
  stats.gpu.copies = known.gpu_copies;
  stats.gpu.copied_bytes = known.gpu_copied_bytes;
  stats.gpu.staged_bytes = known.gpu_staged_bytes;
  stats.gpu.pins = known.gpu_pins;
  stats.gpu.pinned_bytes = known.gpu_pinned_bytes;
  stats.channels_opened = known.channels_opened;
  stats.channels_open = known.channels_open;
  stats.handshakes_refused = known.handshakes_refused;
  stats.leases_held_by_peers = known.leases_held_by_peers;
  stats.quarantined_bytes = known.quarantined_bytes;
  const std::string lines = internal::whole_text([this](char* buffer, std::uint64_t capacity) {
    return fw_device_choices(handle(), buffer, capacity);
  });
  for (std::size_t start = 0; start < lines.size();) {
    const std::size_t end = std::min(lines.find('\n', start), lines.size());
    stats.choices.push_back(lines.substr(start, end - start));
    start = end + 1;
  }
  return stats;
}

FARWRITE_END
