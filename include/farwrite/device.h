/// @file
/// Device: the object that a process opens. It holds fabrics, memory, pollers and one listening
/// endpoint.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "farwrite/channel.h"
#include "farwrite/export.h"
#include "farwrite/options.h"
#include "farwrite/region.h"
#include "farwrite/registration.h"
#include "farwrite/status.h"

namespace farwrite {

namespace device {
class DeviceState;
}

/// Memory accounting of one direction, in bytes unless a field counts something else.
struct MemoryStats {
  std::uint64_t limit = 0;      ///< send_limit or receive_limit of DeviceOptions
  std::uint64_t reserved = 0;   ///< in segments, taken from the kernel
  std::uint64_t used = 0;       ///< in regions
  std::uint64_t peak_used = 0;  ///< highest `used` since the device was opened
  std::uint64_t segments = 0;   ///< number of segments; each is registered once, never per region
  std::uint64_t refusals = 0;   ///< number of refused allocations
  /// Freed but not reused yet: a forked child may read it (docs/explanation/fork.md).
  std::uint64_t held_back = 0;
};

/// Memory that RDMA adapters have registered (verbs). All fields are zero for a device without that
/// fabric.
struct AdapterStats {
  std::uint64_t segments = 0;   ///< registrations of segments, since the device was opened
  std::uint64_t on_demand = 0;  ///< registrations of the users' memory, since the device was opened
  std::uint64_t live = 0;       ///< registrations that exist now
  std::uint64_t live_bytes = 0;            ///< memory of these registrations
  std::uint64_t nanoseconds = 0;           ///< time spent in registering and deregistering
  std::uint64_t transfers = 0;             ///< transfers whose local memory was looked up
  std::uint64_t transfers_registered = 0;  ///< of those, transfers that registered it first
};

/// What this process has done with GPUs, all devices together.
struct GpuStats {
  std::uint64_t mappings = 0;      ///< times that GPU memory was mapped, its own or a peer's
  std::uint64_t mapped_bytes = 0;  ///< GPU memory that is mapped now
  std::uint64_t copies = 0;        ///< copies that a GPU made
  std::uint64_t copied_bytes = 0;  ///< bytes of these copies
  /// Of these, bytes on their way through host memory, because a fabric does not reach GPUs.
  std::uint64_t staged_bytes = 0;
  std::uint64_t pins = 0;          ///< times that host memory was registered with the CUDA driver
  std::uint64_t pinned_bytes = 0;  ///< host memory that is registered now
};

/// Counts of a device and its channels.
struct DeviceStats {
  MemoryStats send;                        ///< memory that peers may read
  MemoryStats receive;                     ///< memory that peers may write
  std::uint64_t registrations = 0;         ///< segments that were registered with a fabric
  AdapterStats adapters;                   ///< memory that RDMA adapters have registered
  GpuStats gpu;                            ///< of the process, as its CUDA driver is
  std::uint64_t channels_opened = 0;       ///< by either side, since the device was opened
  std::uint64_t channels_open = 0;         ///< now
  std::uint64_t handshakes_refused = 0;    ///< incoming connections that became no channel
  std::uint64_t leases_held_by_peers = 0;  ///< now
  std::uint64_t quarantined_bytes = 0;     ///< now
  std::vector<std::string> choices;        ///< "127.0.0.1:7777: shm (same host ...)", one per peer
};

/// The object that a process opens: its fabrics, its memory, its pollers and one listening
/// endpoint.
///
/// Copies share the device. It closes when close() is called or the last handle is gone. The device
/// is thread-safe. A forked child that uses it gets kForked. The child can read the memory that its
/// parent had, see docs/explanation/fork.md.
class FARWRITE_API Device {
 public:
  /// Opens a device: listens at options.listen, makes the fabrics, and starts the pollers.
  ///
  /// Errors: kInvalidArgument for an option that is out of range; kAlreadyExists if the port is
  /// taken; kUnavailable if the address is not one of this host; kUnauthenticated if options.token
  /// is not valid at that address; the error of a fabric that does not start.
  static Result<Device> open(const DeviceOptions& options = {});

  Device() = default;
  /// @private Made by open().
  explicit Device(std::shared_ptr<device::DeviceState> state) : state_(std::move(state)) {}
  /// False for a default-constructed handle. Such a handle allows no other call.
  bool valid() const { return state_ != nullptr; }

  /// The address that peers connect to, with the selected port.
  Endpoint endpoint() const;
  /// Identifies this device, over restarts on the same endpoint of the same host.
  DeviceUuid uuid() const;
  /// Identifies this start of the device. It differs at every start.
  std::uint64_t epoch() const;

  /// Opens a channel: handshake, proof of the token, choice of the fabric. Every call makes a
  /// separate channel. While no device listens at `peer`, it retries until `timeout`.
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
  std::byte* allocate_raw(std::uint64_t bytes);
  /// Frees memory from allocate_raw() of this device, even after close(). nullptr is ignored; any
  /// other pointer ends the program. No peer may hold a lease on the memory.
  void free_raw(std::byte* memory);
  /// True if `pointer` lies in memory from allocate() or allocate_raw(). Lock-free.
  bool contains(const void* pointer) const;
  /// True if all of `memory` lies in one segment of that memory, as Channel::lend() demands.
  /// Lock-free.
  bool contains(ByteView memory) const;
  /// Registers the user's memory with every fabric that requires registration (verbs). Transfers
  /// from or to it then need no registration each time. Peers still cannot reach it. Writable
  /// memory serves as source and as destination. The sentence of a kResourceExhausted explains
  /// limits
  /// (`ulimit -l`).
  Result<MemoryRegistration> register_memory(MutableByteView memory);
  /// Registers read-only memory, which serves only as a source.
  Result<MemoryRegistration> register_memory(ByteView memory);
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
  std::string metrics_text() const;

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
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  std::shared_ptr<device::DeviceState> state_;
};

}  // namespace farwrite
