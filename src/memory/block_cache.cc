#include "memory/block_cache.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <thread>

#include "core/mutex.h"

namespace farwrite::memory {
namespace {

std::size_t shard_count() {
  const unsigned cpus = std::clamp(std::thread::hardware_concurrency(), 1U, 32U);
  return 2 * std::bit_ceil(cpus);
}

// Threads are dealt to shards in turn: unlike a hash of the thread, neighbours never collide.
std::uint32_t thread_number() {
  static std::atomic<std::uint32_t> next{0};
  thread_local const std::uint32_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

BlockCache::BlockCache() : shards_(shard_count()) {}

bool BlockCache::keeps(std::uint64_t units) {
  return units <= kMostUnits && class_units(class_at_most(units)) == units;
}

std::optional<std::uint64_t> BlockCache::pop(std::uint64_t units) {
  CacheShard& shard = own_shard();
  const core::Lock lock(shard.mutex);
  std::vector<std::uint64_t>& bin = shard.bins[class_at_most(units)];
  if (bin.empty()) return std::nullopt;
  const std::uint64_t start = bin.back();
  bin.pop_back();
  shard.cached_units -= units;
  ++shard.allocations;
  return start;
}

void BlockCache::push(BlockExtent block, std::vector<BlockExtent>& evicted) {
  CacheShard& shard = own_shard();
  const core::Lock lock(shard.mutex);
  ++shard.frees;
  std::vector<std::uint64_t>& bin = shard.bins[class_at_most(block.units)];
  if (block.units > shard.limit_units || bin.size() >= kMostPerBin) {
    evicted.push_back(block);
    return;
  }
  bin.push_back(block.start);
  shard.cached_units += block.units;
  if (shard.cached_units > shard.limit_units) make_room(shard, evicted);
}

void BlockCache::flush(std::vector<BlockExtent>& evicted) {
  for (CacheShard& shard : shards_) {
    const core::Lock lock(shard.mutex);
    for (std::uint32_t bin = 0; bin < kBins; ++bin) {
      for (const std::uint64_t start : shard.bins[bin])
        evicted.push_back({start, class_units(bin)});
      shard.bins[bin].clear();
    }
    shard.cached_units = 0;
  }
}

void BlockCache::count_allocation() {
  CacheShard& shard = own_shard();
  const core::Lock lock(shard.mutex);
  ++shard.allocations;
}

void BlockCache::count_free() {
  CacheShard& shard = own_shard();
  const core::Lock lock(shard.mutex);
  ++shard.frees;
}

void BlockCache::set_limit(std::uint64_t units) {
  for (CacheShard& shard : shards_) {
    const core::Lock lock(shard.mutex);
    shard.limit_units = units / shards_.size();
  }
}

BlockCache::CacheCounts BlockCache::counts() const {
  CacheCounts sum;
  for (const CacheShard& shard : shards_) {
    const core::Lock lock(shard.mutex);
    sum.cached_units += shard.cached_units;
    sum.allocations += shard.allocations;
    sum.frees += shard.frees;
  }
  return sum;
}

BlockCache::CacheShard& BlockCache::own_shard() {
  return shards_[thread_number() % shards_.size()];
}

// Bins take turns, so that sizes nothing asks for any more leave in the end.
void BlockCache::make_room(CacheShard& shard, std::vector<BlockExtent>& evicted) {
  const std::uint64_t target = shard.limit_units - shard.limit_units / 4;
  while (shard.cached_units > target) {
    std::vector<std::uint64_t>& bin = shard.bins[shard.victim];
    if (bin.empty()) {
      shard.victim = (shard.victim + 1) % kBins;
      continue;
    }
    const std::uint64_t units = class_units(shard.victim);
    evicted.push_back({bin.back(), units});
    bin.pop_back();
    shard.cached_units -= units;
  }
}

}  // namespace farwrite::memory
