// Device: what a process opens. Its fabrics, its memory, its pollers, one listening endpoint.
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

// Memory accounting of one direction, in bytes.
struct MemoryStats {
  std::uint64_t limit = 0;
  std::uint64_t reserved = 0;  // in segments, taken from the kernel
  std::uint64_t used = 0;      // in regions
  std::uint64_t peak_used = 0;
  std::uint64_t segments = 0;  // each registered once, never per region
  std::uint64_t refusals = 0;
  std::uint64_t held_back =
      0;  // freed, not reused yet: a forked child may read it (docs/explanation/fork.md)
};

// Memory that RDMA adapters have registered (verbs); all zero for a device without that fabric.
struct AdapterStats {
  std::uint64_t segments = 0;   // registrations of segments, ever
  std::uint64_t on_demand = 0;  // registrations of users' own memory, ever
  std::uint64_t live = 0;       // registrations there are now
  std::uint64_t live_bytes = 0;
  std::uint64_t nanoseconds = 0;           // spent in registering and deregistering
  std::uint64_t transfers = 0;             // whose local memory was looked up
  std::uint64_t transfers_registered = 0;  // of those, had to register it first
};

struct DeviceStats {
  MemoryStats send, receive;
  std::uint64_t registrations = 0;  // segments handed to a fabric
  AdapterStats adapters;
  std::uint64_t channels_opened = 0, channels_open = 0;
  std::uint64_t handshakes_refused = 0;
  std::uint64_t leases_held_by_peers = 0;  // now
  std::uint64_t quarantined_bytes = 0;     // now
  std::vector<std::string> choices;        // "127.0.0.1:7777: shm (same host ...)", one per peer
};

// Copies share the device; it closes when close() is called or the last handle is gone.
// Thread-safe. A forked child that uses it gets kForked; it reads the memory its parent had, see
// docs/explanation/fork.md.
class FARWRITE_API Device {
 public:
  static Result<Device> open(const DeviceOptions& options = {});

  Device() = default;
  explicit Device(std::shared_ptr<device::DeviceState> state) : state_(std::move(state)) {}
  bool valid() const { return state_ != nullptr; }

  // Where peers connect to, with the port that was picked.
  Endpoint endpoint() const;
  DeviceUuid uuid() const;
  std::uint64_t epoch() const;

  // Opens a channel: handshake, proof of the token, choice of the fabric. While nobody listens at
  // `peer` yet, it tries again until `timeout`. Every call makes a channel of its own.
  Result<Channel> connect(const Endpoint& peer,
                          std::chrono::nanoseconds timeout = std::chrono::seconds(10));
  // The next channel that a peer opened to us.
  Result<Channel> accept(std::chrono::nanoseconds timeout = kForever);

  // Memory that peers may read or alias, and nobody but this process may write. 64-byte aligned,
  // contents undefined.
  Result<MemoryRegion> allocate(std::uint64_t bytes);
  // The same memory without a region of its own, for allocators: only Channel::lend() shows it to a
  // peer. nullptr when the limit is reached, the device is closed, or in a forked child.
  std::byte* allocate_raw(std::uint64_t bytes);
  // Takes back what allocate_raw() of this device gave, also after close(). nullptr is ignored; any
  // other pointer ends the program. No lease on the memory may be out.
  void free_raw(std::byte* memory);
  // Whether `pointer` lies in memory from allocate() or allocate_raw(). Lock-free.
  bool contains(const void* pointer) const;
  // Registers memory of the user's own with every fabric that has use for it (verbs), so that
  // transfers from or to it need not do so each time; peers still cannot reach it. Writable memory
  // serves as source and as destination. kResourceExhausted explains limits (`ulimit -l`).
  Result<MemoryRegistration> register_memory(MutableByteView memory);
  // As a source only.
  Result<MemoryRegistration> register_memory(ByteView memory);
  // Shows `region` to every peer under `name`, with a description as in Channel::publish; replaces
  // an earlier one of that name. Landing memory belongs to one channel: publish it there.
  Status publish(std::string_view name, const MemoryRegion& region,
                 std::string_view description = {});
  Status unpublish(std::string_view name);

  DeviceStats stats() const;
  // The same, and those of every channel, in the Prometheus text exposition format, version 0.0.4;
  // docs/reference/metrics.md lists the names. Empty in a forked child.
  std::string metrics_text() const;

  // Closes every channel, then the device. kPeerSilent if a peer did not settle in `timeout`; all
  // is released nevertheless, except memory that peer may still touch, which stays quarantined
  // until the process ends or the peer does. Called inside a callback: kFailedPrecondition.
  //
  // kDeadlineExceeded if callbacks, connect() or other threads' calls have not returned in
  // `timeout` (nor in 100 ms). Then the device is closing: every call fails, nothing of it is
  // released, its channels are as Channel::close() leaves them. Let the callbacks return and call
  // close() again. If the last handle goes instead, a thread in the background does so.
  Status close(std::chrono::nanoseconds timeout = std::chrono::seconds(1));

 private:
  std::shared_ptr<device::DeviceState> state_;
};

}  // namespace farwrite
