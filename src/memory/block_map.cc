#include "memory/block_map.h"

#include <sys/mman.h>

#include <bit>
#include <cerrno>
#include <string>

namespace farwrite::memory {
namespace {

// How far a list is searched for a better fit before the best so far is good enough.
constexpr std::uint32_t kSearchSteps = 16;
constexpr std::uint32_t kSearchAll = ~std::uint32_t{0};

static_assert(kSizeClasses % 64 == 0);
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

}  // namespace

Result<std::unique_ptr<BlockMap>> BlockMap::create(std::uint64_t range_bytes) {
  const std::uint64_t units = range_bytes / kUnitBytes;
  // Zero pages, and only those that are touched: tags of fresh memory read as 0.
  void* const tags = ::mmap(nullptr, units * sizeof(Tag), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (tags == MAP_FAILED) {
    return Status::system_error(
        StatusCode::kResourceExhausted, {.operation = "reserve memory"},
        "no address space for the bookkeeping of " + std::to_string(range_bytes) + " bytes", errno,
        "lower send_limit or receive_limit_per_peer, or raise `ulimit -v`");
  }
  // Blocks meet every 64 KiB or so, where a 4 KiB page of tags would mean a fault for each of them.
  (void)::madvise(tags, units * sizeof(Tag), MADV_HUGEPAGE);
  return std::unique_ptr<BlockMap>(new BlockMap(static_cast<Tag*>(tags), units));
}

BlockMap::BlockMap(Tag* tags, std::uint64_t range_units)
    : tags_(tags),
      range_units_(range_units),
      segment_starts_((range_units + kUnitsPerChunk - 1) / kUnitsPerChunk, false) {
  bins_.fill(kNone);
}

BlockMap::~BlockMap() {
  ::munmap(tags_, range_units_ * sizeof(Tag));
  Tag* const made = made_.load(std::memory_order_relaxed);
  if (made != nullptr) ::munmap(made, range_units_ * sizeof(Tag));
}

void BlockMap::add_segment(std::uint64_t start, std::uint64_t units) {
  segment_starts_[start / kUnitsPerChunk] = true;
  insert(start, units);
}

bool BlockMap::remove_segment(std::uint64_t start, std::uint64_t units) {
  const std::uint32_t node = free_node_at(start);
  if (node == kNone || nodes_[node].units != units) return false;
  remove(node);
  segment_starts_[start / kUnitsPerChunk] = false;
  return true;
}

std::optional<std::uint64_t> BlockMap::take(std::uint64_t units) {
  if (units >= kUnitsOnPages) {
    // A free block this long holds `units` from a page's start on, wherever it starts itself.
    const std::uint32_t node = best_fit(units + kUnitsPerPage - 1);
    if (node != kNone) {
      const std::uint64_t start = nodes_[node].start;
      return cut(node, (start + kUnitsPerPage - 1) / kUnitsPerPage * kUnitsPerPage, units);
    }
  }
  const std::uint32_t node = best_fit(units);
  if (node == kNone) return std::nullopt;
  return cut(node, nodes_[node].start, units);
}

std::uint64_t BlockMap::cut(std::uint32_t node, std::uint64_t start, std::uint64_t units) {
  const Node block = remove(node);
  if (start > block.start) insert(block.start, start - block.start);
  const std::uint64_t end = start + units;
  const std::uint64_t block_end = block.start + block.units;
  if (end < block_end) insert(end, block_end - end);
  return start;
}

void BlockMap::give(std::uint64_t start, std::uint64_t units) {
  const std::uint64_t end = start + units;
  if (end < range_units_ && !segment_starts_at(end)) {
    const std::uint32_t after = free_node_at(end);
    if (after != kNone) units += remove(after).units;
  }
  if (start > 0 && !segment_starts_at(start)) {
    const std::uint32_t before = free_node_at(start - 1);
    if (before != kNone) {
      const Node block = remove(before);
      start = block.start;
      units += block.units;
    }
  }
  insert(start, units);
}

std::uint64_t BlockMap::largest_free() const {
  for (std::uint32_t word = kSizeClasses / 64; word-- > 0;) {
    if (filled_[word] == 0) continue;
    const std::uint32_t bin =
        word * 64 + 63 - static_cast<std::uint32_t>(std::countl_zero(filled_[word]));
    std::uint64_t largest = 0;
    for (std::uint32_t at = bins_[bin]; at != kNone; at = nodes_[at].next) {
      if (nodes_[at].units > largest) largest = nodes_[at].units;
    }
    return largest;
  }
  return 0;
}

void BlockMap::mark_live(std::uint64_t start, std::uint64_t units) {
  tags_[start].store(static_cast<std::uint32_t>(units), std::memory_order_relaxed);
}

std::uint64_t BlockMap::end_live(std::uint64_t start) {
  std::uint32_t tag = tags_[start].load(std::memory_order_relaxed);
  // An exchange rather than a store: of two threads freeing one block, exactly one gets it.
  while (tag != 0 && (tag & kFree) == 0) {
    if (tags_[start].compare_exchange_weak(tag, 0, std::memory_order_relaxed)) return tag;
  }
  return 0;
}

void BlockMap::set_made(std::uint64_t start, std::uint64_t stamp) {
  Tag* made = made_.load(std::memory_order_acquire);
  if (made == nullptr) {
    const std::uint64_t bytes = range_units_ * sizeof(Tag);
    void* const mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) return;  // reads as old: held back longer than needed
    if (made_.compare_exchange_strong(made, static_cast<Tag*>(mapped))) {
      made = static_cast<Tag*>(mapped);
    } else {
      ::munmap(mapped, bytes);
    }
  }
  made[start].store(static_cast<std::uint32_t>(stamp), std::memory_order_relaxed);
}

std::uint64_t BlockMap::made(std::uint64_t start) const {
  const Tag* const made = made_.load(std::memory_order_acquire);
  return made == nullptr ? 0 : made[start].load(std::memory_order_relaxed);
}

void BlockMap::insert(std::uint64_t start, std::uint64_t units) {
  std::uint32_t node = 0;
  if (spare_nodes_.empty()) {
    node = static_cast<std::uint32_t>(nodes_.size());
    nodes_.emplace_back();
  } else {
    node = spare_nodes_.back();
    spare_nodes_.pop_back();
  }
  const std::uint32_t bin = class_at_most(units);
  nodes_[node] = {start, units, kNone, bins_[bin]};
  if (bins_[bin] != kNone) nodes_[bins_[bin]].previous = node;
  bins_[bin] = node;
  filled_[bin / 64] |= std::uint64_t{1} << (bin % 64);
  tags_[start].store(kFree | node, std::memory_order_relaxed);
  tags_[start + units - 1].store(kFree | node, std::memory_order_relaxed);
}

BlockMap::Node BlockMap::remove(std::uint32_t node) {
  const Node block = nodes_[node];
  const std::uint32_t bin = class_at_most(block.units);
  if (block.next != kNone) nodes_[block.next].previous = block.previous;
  if (block.previous != kNone) {
    nodes_[block.previous].next = block.next;
  } else {
    bins_[bin] = block.next;
    if (block.next == kNone) filled_[bin / 64] &= ~(std::uint64_t{1} << (bin % 64));
  }
  tags_[block.start].store(0, std::memory_order_relaxed);
  tags_[block.start + block.units - 1].store(0, std::memory_order_relaxed);
  spare_nodes_.push_back(node);
  return block;
}

std::uint32_t BlockMap::best_in_bin(std::uint32_t bin, std::uint64_t units,
                                    std::uint32_t most_steps) const {
  std::uint32_t best = kNone;
  std::uint32_t steps = 0;
  for (std::uint32_t at = bins_[bin]; at != kNone && steps < most_steps; at = nodes_[at].next) {
    const std::uint64_t size = nodes_[at].units;
    if (size >= units && (best == kNone || size < nodes_[best].units)) best = at;
    if (size == units) break;
    ++steps;
  }
  return best;
}

std::uint32_t BlockMap::best_fit(std::uint64_t units) const {
  const std::uint32_t own = class_at_most(units);
  const std::uint32_t near = best_in_bin(own, units, kSearchSteps);
  if (near != kNone) return near;
  const std::optional<std::uint32_t> larger = first_bin_from(own + 1);
  if (larger) return best_in_bin(*larger, units, kSearchSteps);
  // Nothing larger: only a longer look at blocks of about the same size can still help.
  return best_in_bin(own, units, kSearchAll);
}

std::optional<std::uint32_t> BlockMap::first_bin_from(std::uint32_t bin) const {
  if (bin >= kSizeClasses) return std::nullopt;
  std::uint64_t bits = filled_[bin / 64] & (~std::uint64_t{0} << (bin % 64));
  for (std::uint32_t word = bin / 64;;) {
    if (bits != 0) return word * 64 + static_cast<std::uint32_t>(std::countr_zero(bits));
    if (++word == filled_.size()) return std::nullopt;
    bits = filled_[word];
  }
}

std::uint32_t BlockMap::free_node_at(std::uint64_t unit) const {
  const std::uint32_t tag = tags_[unit].load(std::memory_order_relaxed);
  return (tag & kFree) != 0 ? tag & ~kFree : kNone;
}

bool BlockMap::segment_starts_at(std::uint64_t unit) const {
  return unit % kUnitsPerChunk == 0 && segment_starts_[unit / kUnitsPerChunk];
}

}  // namespace farwrite::memory
