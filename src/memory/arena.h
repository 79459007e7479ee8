// Arena: large registered memory with an allocator on top.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "farwrite/status.h"
#include "memory/quota.h"
#include "memory/segment.h"

namespace farwrite::memory {

struct ArenaOptions {
  std::string name = "arena";                             // shown in errors and in /proc/<pid>/maps
  std::uint64_t limit_bytes = std::uint64_t{1} << 30;     // rounded up to 2 MiB; never exceeded
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;  // the arena grows by at least this
  SegmentUse use = SegmentUse::kExport;
  HugePages huge_pages = HugePages::kTransparent;
  bool prefault = true;
  NumaPlacement numa = {};
  // The option a user would raise; an error about a full arena names it.
  std::string limit_option = "limit_bytes";
  // Charged with every block's usable bytes; may be shared among arenas.
  std::shared_ptr<Quota> quota = {};
  // Called once for every new segment before anything is allocated from it: fabrics register it
  // here. A failure fails the allocation that needed the segment. Must not call this arena.
  std::function<Status(const std::shared_ptr<Segment>&)> on_segment = {};
  // Called before a segment goes back to the kernel, but not by the destructor and not after
  // retire(). Must not call this arena.
  std::function<void(const std::shared_ptr<Segment>&)> on_segment_removed = {};
};

// A piece of an arena. Holds nothing: the code that keeps a block keeps a shared_ptr to its arena
// too.
struct Block {
  std::byte* data = nullptr;  // aligned to 64 bytes; contents are undefined
  std::uint64_t bytes = 0;    // usable, >= requested
  Segment* segment = nullptr;
  std::uint64_t offset = 0;  // of data within the segment
};

struct Location {
  Segment* segment = nullptr;
  std::uint64_t offset = 0;
};

struct ArenaStats {
  std::uint64_t segments = 0;
  std::uint64_t reserved_bytes = 0;  // of all segments
  std::uint64_t used_bytes = 0;      // in blocks that callers hold
  std::uint64_t peak_used_bytes = 0;
  std::uint64_t cached_bytes = 0;     // freed, kept at hand for the next block of that size
  std::uint64_t held_back_bytes = 0;  // freed, not used again yet: a forked child may read them
  std::uint64_t allocations = 0;      // that succeeded
  std::uint64_t frees = 0;
  std::uint64_t failures = 0;      // allocations that failed, for any reason
  std::uint64_t largest_free = 0;  // contiguous bytes free now, caches not counted
};

// Thread-safe; scales by caches in front of one best-fit allocator that coalesces (block_cache.h,
// block_map.h). All bookkeeping lies outside the segments, because a peer may write into them.
// Not usable in a forked child: allocate() fails with kForked, everything else does nothing there.
// The child reads what lived at its fork: those blocks, once freed, are held back until it ends.
class Arena {
 public:
  // Reserves addresses only; the first allocation creates the first segment.
  static Result<std::shared_ptr<Arena>> create(ArenaOptions options);
  // All blocks are gone after this; segments live on while something else holds them.
  ~Arena();
  Arena(const Arena&) = delete;
  Arena& operator=(const Arena&) = delete;

  // A block of at least `bytes`; 0 gives a valid, unique block. Where the limit is reached,
  // segments without any live block are given back for it. kResourceExhausted when the limit or the
  // quota is reached; what creating a segment or on_segment reports otherwise.
  Result<Block> allocate(std::uint64_t bytes);
  // Takes back a block by its `data`, from any thread, in constant time. Aborts with a message when
  // no live block starts there (a second free, a foreign pointer). nullptr is ignored.
  void free(std::byte* data);

  // Whether `address` lies in one of the segments. Lock-free.
  bool contains(const void* address) const;
  // Where `address` lies, or nothing. Lock-free; the segment stays valid while a block in it lives.
  std::optional<Location> locate(const void* address) const;

  ArenaStats stats() const;
  // Gives segments without any live block back to the kernel.
  void trim();
  // Gives one segment back to the kernel that had no live block for `idle`. The oldest one stays,
  // unless it was made for a block that is larger than segment_bytes.
  // Does not wait for a segment that is being made.
  void trim_idle(std::chrono::nanoseconds idle);
  // Nothing is allocated any more: gives segments without any live block back to the kernel now,
  // and each other one with its last block.
  void retire();
  // Makes blocks that were held back for children which have ended usable again. allocate() does
  // so before the arena grows or fails.
  void reclaim();

  const ArenaOptions& options() const;

 private:
  class Implementation;
  explicit Arena(std::unique_ptr<Implementation> implementation);

  const std::unique_ptr<Implementation> implementation_;
};

}  // namespace farwrite::memory
