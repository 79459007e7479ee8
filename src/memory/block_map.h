// BlockMap: which parts of an arena's address range are free, and where the live blocks start.
//
// Free blocks hang in one list per size class; a block given back merges with its free neighbours
// at once. One 32-bit tag per 64 bytes, outside the memory it describes, says what starts or ends
// there, which makes both merging and freeing by address constant in time. The tags cost real
// memory only where blocks meet.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "farwrite/status.h"
#include "memory/address_range.h"
#include "memory/size_class.h"

namespace farwrite::memory {

// Positions and lengths are in units of 64 bytes from the start of the arena's range. Members
// marked "lock-free" may be called from any thread; all others need the caller's lock.
class BlockMap {
 public:
  static constexpr std::uint64_t kMostUnitsPerBlock = (std::uint64_t{1} << 31) - 1;  // 128 GiB

  static Result<std::unique_ptr<BlockMap>> create(std::uint64_t range_bytes);
  ~BlockMap();
  BlockMap(const BlockMap&) = delete;
  BlockMap& operator=(const BlockMap&) = delete;

  // Adds a segment's memory. `start` is a multiple of 2 MiB; blocks never merge across it.
  void add_segment(std::uint64_t start, std::uint64_t units);
  // Takes a segment's memory out again; false when a part of it is in use.
  bool remove_segment(std::uint64_t start, std::uint64_t units);

  // Blocks of at least this many units (1 MiB) start on a page if any free block allows it: a copy
  // between two buffers whose places in their pages differ by little takes up to twice as long.
  static constexpr std::uint64_t kUnitsOnPages = (std::uint64_t{1} << 20) / kUnitBytes;

  // Cuts exactly `units` from the best fitting free block; nothing if there is none.
  std::optional<std::uint64_t> take(std::uint64_t units);
  // Gives back what take() returned.
  void give(std::uint64_t start, std::uint64_t units);

  std::uint64_t largest_free() const;

  // Lock-free. Records that a caller holds the block [start, start + units).
  void mark_live(std::uint64_t start, std::uint64_t units);
  // Lock-free. Ends that record and returns the block's units; 0 when no live block starts here.
  std::uint64_t end_live(std::uint64_t start);

  // Lock-free. A ForkedReaders::stamp() for the block that starts here. Reads as the stamp of an
  // older block, or 0, when it was not set: that is enough for a block made while no child lived,
  // because every fork after the older one is over or newer than this one.
  void set_made(std::uint64_t start, std::uint64_t stamp);
  std::uint64_t made(std::uint64_t start) const;

 private:
  using Tag = std::atomic<std::uint32_t>;
  // A tag is 0 (inside a block, or nothing known), the units of the live block that starts here, or
  // kFree | node for the first and the last unit of a free block.
  static constexpr std::uint32_t kFree = std::uint32_t{1} << 31;
  static constexpr std::uint32_t kNone = kFree - 1;
  static constexpr std::uint64_t kUnitsPerPage = 4096 / kUnitBytes;
  static constexpr std::uint32_t kUnitsPerChunk = kHugePageBytes / kUnitBytes;

  struct Node {
    std::uint64_t start = 0;
    std::uint64_t units = 0;
    std::uint32_t previous = kNone;
    std::uint32_t next = kNone;
  };

  BlockMap(Tag* tags, std::uint64_t range_units);

  void insert(std::uint64_t start, std::uint64_t units);
  Node remove(std::uint32_t node);
  // Takes [start, start + units) out of a free block and leaves what is before and behind it free.
  std::uint64_t cut(std::uint32_t node, std::uint64_t start, std::uint64_t units);
  std::uint32_t best_in_bin(std::uint32_t bin, std::uint64_t units, std::uint32_t most_steps) const;
  std::uint32_t best_fit(std::uint64_t units) const;
  std::optional<std::uint32_t> first_bin_from(std::uint32_t bin) const;
  std::uint32_t free_node_at(std::uint64_t unit) const;
  bool segment_starts_at(std::uint64_t unit) const;

  Tag* const tags_;
  std::atomic<Tag*> made_{nullptr};  // mapped at the first use: few programs fork
  const std::uint64_t range_units_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> spare_nodes_;
  std::array<std::uint32_t, kSizeClasses> bins_;
  std::array<std::uint64_t, kSizeClasses / 64> filled_{};  // one bit per bin with a block in it
  std::vector<bool> segment_starts_;                       // by 2 MiB
};

}  // namespace farwrite::memory
