// BlockCache: freed blocks kept at hand, so that threads rarely meet at the arena's lock.
//
// A few shards, each with its own lock and one stack per size class; a thread sticks to one shard.
// What a shard holds is bounded; what exceeds the bound goes back to the BlockMap, where it merges.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/mutex.h"
#include "memory/size_class.h"

namespace farwrite::memory {

// A block in units of 64 bytes, see block_map.h.
struct BlockExtent {
  std::uint64_t start = 0;
  std::uint64_t units = 0;
};

// Thread-safe.
class BlockCache {
 public:
  // Larger blocks are rare and expensive to keep: they bypass the cache.
  static constexpr std::uint64_t kMostUnits = (std::uint64_t{32} << 20) / kUnitBytes;

  BlockCache();

  // Whether a block of so many units may be kept: it must be of exactly a class's size.
  static bool keeps(std::uint64_t units);

  // A block of exactly `units`, which keeps() accepts, or nothing. Counts an allocation if it has
  // one.
  std::optional<std::uint64_t> pop(std::uint64_t units);
  // Keeps a block and counts a free. Blocks that had to make room are appended to `evicted`.
  void push(BlockExtent block, std::vector<BlockExtent>& evicted);
  // Empties every shard into `evicted`.
  void flush(std::vector<BlockExtent>& evicted);

  // Counts what passed the cache by.
  void count_allocation();
  void count_free();

  // Bounds what all shards together may keep.
  void set_limit(std::uint64_t units);

  struct CacheCounts {
    std::uint64_t cached_units = 0;
    std::uint64_t allocations = 0;
    std::uint64_t frees = 0;
  };
  CacheCounts counts() const;

 private:
  static constexpr std::uint32_t kBins = class_at_most(kMostUnits) + 1;
  static constexpr std::size_t kMostPerBin = 64;

  struct alignas(128) CacheShard {
    mutable core::Mutex mutex{core::LockRank::kMemory};
    std::uint64_t cached_units FW_GUARDED_BY(mutex) = 0;
    std::uint64_t limit_units FW_GUARDED_BY(mutex) = 0;
    std::uint64_t allocations FW_GUARDED_BY(mutex) = 0;
    std::uint64_t frees FW_GUARDED_BY(mutex) = 0;
    std::uint32_t victim FW_GUARDED_BY(mutex) = 0;  // the bin that is emptied next
    std::array<std::vector<std::uint64_t>, kBins> bins FW_GUARDED_BY(mutex);
  };

  CacheShard& own_shard();
  static void make_room(CacheShard& shard, std::vector<BlockExtent>& evicted)
      FW_REQUIRES(shard.mutex);

  std::vector<CacheShard> shards_;
};

}  // namespace farwrite::memory
