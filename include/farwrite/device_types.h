/// @file
/// The counts of a device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "farwrite/internal/namespace.h"

FARWRITE_BEGIN

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

FARWRITE_END
