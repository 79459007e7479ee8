// LandingMemory: the memory of this side that one peer may write.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/deadline.h"
#include "core/mutex.h"
#include "core/region.h"
#include "device/channel_link.h"
#include "device/region_memory.h"
#include "device/region_state.h"
#include "farwrite/status.h"
#include "memory/arena.h"

namespace farwrite::device {

// Memory is used again only when no byte of the peer can land there any more: when its region is
// revoked, or when the link has gone. Until then the block of a closed region is in quarantine.
// Thread-safe.
class LandingMemory {
 public:
  // Both outlive it. `peer_name` is fixed before the first region.
  LandingMemory(const ChannelLink& link, const std::string& peer_name)
      : link_(link), peer_name_(peer_name) {}

  // A region of descriptor.length bytes that the peer may write; offset and key of the descriptor
  // are filled in. `self` keeps the channel, and is kept by the region. The host's memory comes
  // from an arena, made with `options` by the first call that needs it. Inside the channel's gate.
  Result<std::shared_ptr<RegionState>> allocate(const memory::ArenaOptions& options,
                                                MemoryKind kind, RegionDescriptor descriptor,
                                                FabricKind fabric,
                                                const std::shared_ptr<RegionTable>& table,
                                                std::shared_ptr<LandingMemory> self);

  // For RegionState. Ok: no later byte lands there. kPeerSilent: the peer is in the middle of a
  // write, and the memory must not be used again.
  Status revoke(std::uint64_t key, std::uint64_t region_id, std::chrono::nanoseconds timeout);
  void quarantine(std::uint64_t key, std::uint64_t region_id, RegionMemory memory);

  // Asks the link again about every closed region whose peer was writing.
  void settle();
  // Closes all regions and empties the quarantine; kPeerSilent if the peer does not let it.
  Status revoke_all(core::Deadline deadline);
  // The link has gone: frees the quarantine, and gives what nothing holds back to the kernel.
  void release();
  // Frees what forked children have read until their end.
  void reclaim();

  const std::string& peer_name() const { return peer_name_; }
  memory::ArenaStats stats() const;
  // Of closed regions that the peer may still be writing.
  std::uint64_t quarantined_bytes() const;

 private:
  struct Quarantined {
    std::uint64_t key = 0;
    std::uint64_t region_id = 0;
    RegionMemory memory;
  };

  Result<RegionMemory> take(const memory::ArenaOptions& options, MemoryKind kind,
                            std::uint64_t bytes);
  Result<std::shared_ptr<memory::Arena>> make_arena(const memory::ArenaOptions& options);
  // Null before the first region.
  std::shared_ptr<memory::Arena> arena() const;
  std::vector<std::shared_ptr<RegionState>> regions() const;

  const ChannelLink& link_;
  const std::string& peer_name_;
  // Held while the link is asked about the quarantine; never while the arena works.
  mutable core::Mutex mutex_{core::LockRank::kDevice};
  std::shared_ptr<memory::Arena> arena_ FW_GUARDED_BY(mutex_);  // once made, the same until the end
  std::map<std::uint64_t, std::weak_ptr<RegionState>> regions_ FW_GUARDED_BY(mutex_);
  std::vector<Quarantined> quarantined_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::device
