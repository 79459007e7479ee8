// RegionState: one MemoryRegion, and the table that finds regions by id.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "core/fork_guard.h"
#include "core/mutex.h"
#include "core/region.h"
#include "device/region_memory.h"
#include "farwrite/status.h"

namespace farwrite::device {

class LandingMemory;
class RegionState;

// Regions of one device by id. Holds none of them alive. Thread-safe.
class RegionTable {
 public:
  std::uint64_t next_id() { return next_id_.fetch_add(1); }
  void add(const std::shared_ptr<RegionState>& region);
  void remove(std::uint64_t id);
  std::shared_ptr<RegionState> find(std::uint64_t id) const;

 private:
  // Neighbouring ids lie in different shards, so that threads which allocate rarely meet.
  struct alignas(64) RegionShard {
    mutable core::Mutex mutex{core::LockRank::kDeviceTables};
    std::unordered_map<std::uint64_t, std::weak_ptr<RegionState>> regions FW_GUARDED_BY(mutex);
  };
  RegionShard& shard(std::uint64_t id) { return shards_[id % shards_.size()]; }
  const RegionShard& shard(std::uint64_t id) const { return shards_[id % shards_.size()]; }

  std::atomic<std::uint64_t> next_id_{1};
  std::array<RegionShard, 16> shards_;
};

// Thread-safe. The code that holds a shared_ptr keeps the memory from being reused: the user's
// handles, published names, and the leases of peers.
class RegionState {
 public:
  // `landing`: of the channel whose peer may write the region, which it keeps; null for a region
  // that peers read.
  RegionState(std::shared_ptr<RegionTable> table, RegionMemory memory, RegionDescriptor descriptor,
              std::shared_ptr<LandingMemory> landing);
  // Gives the memory back, or into quarantine.
  ~RegionState();
  RegionState(const RegionState&) = delete;
  RegionState& operator=(const RegionState&) = delete;

  std::byte* data() const { return memory_.data(); }
  MemoryKind kind() const { return memory_.kind(); }
  std::uint64_t bytes() const { return descriptor_.length; }
  const RegionDescriptor& descriptor() const { return descriptor_; }
  const LandingMemory* landing() const { return landing_.get(); }
  bool closed() const { return closed_.load(); }
  // Closed, and the peer may still be writing.
  bool quarantined() const { return landing_ != nullptr && closed_.load() && !revoked_.load(); }

  Status close(std::chrono::nanoseconds timeout);

 private:
  // The peer's, who reaches landing memory over one fabric.
  std::uint64_t landing_key() const { return descriptor_.keys.front().key; }

  const std::shared_ptr<RegionTable> table_;
  RegionMemory memory_;
  const RegionDescriptor descriptor_;
  const std::shared_ptr<LandingMemory> landing_;
  const core::ForkGuard fork_guard_;
  std::atomic<bool> closed_{false};
  // A key is the fabric's to reuse once it is revoked, so it is revoked once.
  core::Mutex revoke_mutex_{core::LockRank::kDevice};
  std::atomic<bool> revoked_{false};
};

// The key of `kind` in a descriptor; 0 if it has none.
std::uint64_t find_key(const RegionDescriptor& descriptor, FabricKind kind);

}  // namespace farwrite::device
