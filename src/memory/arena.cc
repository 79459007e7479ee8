#include "memory/arena.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>
#include <vector>

#include "core/deadline.h"
#include "core/fork_guard.h"
#include "core/log.h"
#include "core/mutex.h"
#include "memory/background_release.h"
#include "memory/block_cache.h"
#include "memory/block_map.h"
#include "memory/forked_readers.h"
#include "memory/held_back.h"
#include "memory/segment_table.h"

namespace farwrite::memory {
namespace {

// What the caches may hold back, as a part of the arena. They are emptied before the arena grows or
// fails.
constexpr std::uint64_t kCachedPart = 2;

std::uint64_t rounded_units(std::uint64_t units) {
  if (units <= BlockCache::kMostUnits) return class_units(class_at_least(units));
  constexpr std::uint64_t kPageUnits = 4096 / kUnitBytes;  // 1/8 of a huge block would be a lot
  return (units + kPageUnits - 1) / kPageUnits * kPageUnits;
}

[[noreturn]] void die_of_bad_free(const std::string& arena, const void* data) {
  std::fprintf(stderr,
               "farwrite: arena '%s' cannot free %p: no live block starts there; the block was "
               "freed before, or another allocator returned it\n",
               arena.c_str(), data);
  std::abort();
}

}  // namespace

class Arena::Implementation {
 public:
  Implementation(ArenaOptions options, std::unique_ptr<SegmentTable> segments,
                 std::unique_ptr<BlockMap> map)
      : options_(std::move(options)), segments_(std::move(segments)), map_(std::move(map)) {}
  ~Implementation();

  Result<Block> allocate(std::uint64_t bytes);
  void free(std::byte* data);
  ArenaStats stats() const;
  void trim();
  void trim_idle(std::chrono::nanoseconds idle);
  void retire();
  void reclaim();

  const ArenaOptions& options() const { return options_; }
  const SegmentTable& segments() const { return *segments_; }

 private:
  Result<std::uint64_t> take(std::uint64_t units, std::uint64_t* granted);
  std::optional<std::uint64_t> take_from_map(std::uint64_t units);
  Status grow(std::uint64_t units, std::uint64_t wanted_units);
  bool remove_free_segments();
  // With grow_mutex_. Whether it was wholly free, and for `idle`.
  bool remove_if_free(const SegmentTable::MappedSegment& mapped, std::chrono::nanoseconds idle);
  // With map_mutex_: the segment of the block is in use.
  void touch(std::uint64_t start) { segments_->find(start * kUnitBytes)->used_at = core::now_ns(); }
  bool hold_back(const BlockExtent& block);
  void give_back(const BlockExtent& block);
  void give_to_map(const std::vector<BlockExtent>& blocks);
  void flush_caches();
  Status full(std::uint64_t bytes) const;
  Status over_quota(std::uint64_t bytes) const;
  std::string held_back_note() const;
  Status refused(Status status);
  void count_used(std::uint64_t bytes);

  const ArenaOptions options_;
  const core::ForkGuard guard_;
  const std::unique_ptr<SegmentTable> segments_;  // lookups lock-free, changes under grow_mutex_
  const std::unique_ptr<BlockMap> map_;
  BlockCache cache_;
  HeldBack<BlockExtent> held_back_;
  std::atomic<std::uint64_t> held_back_bytes_{0};
  std::atomic<bool> told_of_held_back_{false};
  std::atomic<bool> retired_{false};
  // Held across slow kernel calls and on_segment, so that it never delays those who need no new
  // segment. Order: grow_mutex_, then map_mutex_; a cache shard's lock is never held while taking
  // either.
  mutable core::Mutex grow_mutex_{core::LockRank::kArenaGrowth};
  mutable core::Mutex map_mutex_{core::LockRank::kMemory};
  std::atomic<std::uint64_t> used_bytes_{0};
  std::atomic<std::uint64_t> peak_used_bytes_{0};
  std::atomic<std::uint64_t> failures_{0};
  std::uint64_t allocations_seen_ FW_GUARDED_BY(grow_mutex_) =
      0;  // by trim_idle(), under grow_mutex_
};

Arena::Implementation::~Implementation() {
  if (guard_.in_forked_child()) return;
  if (options_.quota != nullptr) options_.quota->release(held_back_bytes_.load());
  const std::uint64_t used = used_bytes_.load(std::memory_order_relaxed);
  if (used == 0) return;
  core::log(core::LogLevel::kWarning, "the " + options_.name + " is destroyed while " +
                                          std::to_string(used) + " bytes of it are in use");
}

Result<Block> Arena::Implementation::allocate(std::uint64_t bytes) {
  FARWRITE_RETURN_IF_ERROR(guard_.check("allocate"));
  const std::uint64_t exact = units_for(bytes);
  if (exact > std::min(options_.limit_bytes / kUnitBytes, BlockMap::kMostUnitsPerBlock)) {
    return refused(full(bytes));
  }
  // Rounding up must not be what makes a request fail that would fit.
  std::uint64_t units = rounded_units(exact);
  // The end of a segment of its own is not left to small blocks: they would keep it from being
  // given back.
  if (units * kUnitBytes > options_.segment_bytes) {
    units = round_to_huge_pages(units * kUnitBytes) / kUnitBytes;
  }
  Quota* const quota = options_.quota.get();
  if (quota != nullptr && !quota->fits(units * kUnitBytes)) {
    reclaim();
    if (!quota->fits(units * kUnitBytes)) units = exact;
  }
  const std::uint64_t charged = units * kUnitBytes;
  if (quota != nullptr && !quota->try_charge(charged)) return refused(over_quota(charged));
  std::uint64_t granted = units;
  std::optional<std::uint64_t> start;
  if (BlockCache::keeps(units)) start = cache_.pop(units);
  if (!start) {
    Result<std::uint64_t> taken = take(exact, &granted);
    if (!taken.ok()) {
      if (quota != nullptr) quota->release(charged);
      return refused(taken.status());
    }
    start = *taken;
    if (quota != nullptr) quota->release(charged - granted * kUnitBytes);
    cache_.count_allocation();
  }
  map_->mark_live(*start, granted);
  if (ForkedReaders::any()) [[unlikely]] {
    map_->set_made(*start, ForkedReaders::stamp());
  }
  count_used(granted * kUnitBytes);
  const SegmentTable::MappedSegment& mapped = *segments_->find(*start * kUnitBytes);
  return Block{segments_->base() + *start * kUnitBytes, granted * kUnitBytes, mapped.raw,
               *start * kUnitBytes - mapped.offset};
}

// `*granted` is the size to ask for when it comes in, and the block's size when it goes out: the
// request's own if only that fits.
Result<std::uint64_t> Arena::Implementation::take(std::uint64_t units, std::uint64_t* granted) {
  if (const auto start = take_from_map(*granted)) return *start;
  reclaim();
  flush_caches();
  for (;;) {
    const core::Lock growing(grow_mutex_);
    if (const auto start = take_from_map(*granted)) return *start;
    const Status grown = grow(units, *granted);
    if (grown.ok()) {
      if (const auto start = take_from_map(*granted)) return *start;
    }
    if (const auto start = take_from_map(units)) {
      *granted = units;
      return *start;
    }
    // The addresses of segments that are wholly free may make room for one of another size.
    if (!grown.ok() && !remove_free_segments()) return grown;
    // Or other threads were faster to use up the new segment: again.
  }
}

std::optional<std::uint64_t> Arena::Implementation::take_from_map(std::uint64_t units) {
  const core::Lock lock(map_mutex_);
  const std::optional<std::uint64_t> start = map_->take(units);
  if (start) touch(*start);
  return start;
}

Status Arena::Implementation::grow(std::uint64_t units, std::uint64_t wanted_units) {
  const std::uint64_t needed = round_to_huge_pages(units * kUnitBytes);
  const std::uint64_t wanted =
      round_to_huge_pages(std::max(options_.segment_bytes, wanted_units * kUnitBytes));
  wait_for_background_releases();  // for their addresses as well
  SegmentOptions segment_options;
  segment_options.place = AddressRange::claim(segments_->range(), needed, wanted);
  if (segment_options.place == nullptr) return full(units * kUnitBytes);
  segment_options.bytes = segment_options.place->bytes();
  segment_options.use = options_.use;
  segment_options.huge_pages = options_.huge_pages;
  segment_options.prefault = options_.prefault;
  segment_options.numa = options_.numa;
  segment_options.name = options_.name;
  Result<std::shared_ptr<Segment>> created = Segment::create(segment_options);
  if (!created.ok()) return created.status();
  const std::shared_ptr<Segment>& segment = *created;
  if (options_.on_segment) FARWRITE_RETURN_IF_ERROR(options_.on_segment(segment));
  segments_->add(segment);
  cache_.set_limit(segments_->bytes() / kUnitBytes / kCachedPart);
  const core::Lock lock(map_mutex_);
  map_->add_segment(segments_->offset_of(segment->base()) / kUnitBytes,
                    segment->bytes() / kUnitBytes);
  return {};
}

void Arena::Implementation::free(std::byte* data) {
  if (data == nullptr || guard_.in_forked_child()) return;
  const std::uint64_t offset = segments_->offset_of(data);
  std::uint64_t units = 0;
  if (offset % kUnitBytes == 0 && segments_->find(offset) != nullptr) {
    units = map_->end_live(offset / kUnitBytes);
  }
  if (units == 0) die_of_bad_free(options_.name, data);
  used_bytes_.fetch_sub(units * kUnitBytes, std::memory_order_relaxed);
  const BlockExtent block{offset / kUnitBytes, units};
  if (ForkedReaders::any() && hold_back(block)) [[unlikely]] {
    return;
  }
  if (options_.quota != nullptr) options_.quota->release(units * kUnitBytes);
  give_back(block);
  // The locks of the cache and the map order this behind what retire() found there.
  if (retired_.load(std::memory_order_relaxed)) [[unlikely]] {
    trim();
  }
}

void Arena::Implementation::give_back(const BlockExtent& block) {
  if (!BlockCache::keeps(block.units)) {
    cache_.count_free();
    const core::Lock lock(map_mutex_);
    map_->give(block.start, block.units);
    touch(block.start);
    return;
  }
  std::vector<BlockExtent> evicted;
  cache_.push(block, evicted);
  if (!evicted.empty()) give_to_map(evicted);
}

// The quota stays charged: it bounds memory, and this is not free.
bool Arena::Implementation::hold_back(const BlockExtent& block) {
  const std::uint64_t made = map_->made(block.start);
  if (!ForkedReaders::may_read(made)) return false;
  cache_.count_free();
  held_back_bytes_.fetch_add(block.units * kUnitBytes, std::memory_order_relaxed);
  held_back_.add(block, made);
  return true;
}

void Arena::Implementation::reclaim() {
  if (held_back_.empty() || guard_.in_forked_child()) return;
  const std::vector<BlockExtent> blocks = held_back_.take();
  std::uint64_t units = 0;
  for (const BlockExtent& block : blocks) units += block.units;
  held_back_bytes_.fetch_sub(units * kUnitBytes, std::memory_order_relaxed);
  if (options_.quota != nullptr) options_.quota->release(units * kUnitBytes);
  give_to_map(blocks);
}

void Arena::Implementation::give_to_map(const std::vector<BlockExtent>& blocks) {
  const core::Lock lock(map_mutex_);
  for (const BlockExtent& block : blocks) {
    map_->give(block.start, block.units);
    touch(block.start);
  }
}

void Arena::Implementation::flush_caches() {
  std::vector<BlockExtent> blocks;
  cache_.flush(blocks);
  give_to_map(blocks);
}

void Arena::Implementation::trim() {
  if (guard_.in_forked_child()) return;
  const core::Lock growing(grow_mutex_);
  reclaim();
  flush_caches();
  static_cast<void>(remove_free_segments());
}

void Arena::Implementation::retire() {
  trim();  // while on_segment_removed can still be called
  retired_.store(true, std::memory_order_relaxed);
  trim();  // of what was freed since then
}

bool Arena::Implementation::remove_free_segments() {
  bool any = false;
  for (const SegmentTable::MappedSegment* mapped : segments_->mapped_segments()) {
    if (remove_if_free(*mapped, {})) any = true;
  }
  return any;
}

bool Arena::Implementation::remove_if_free(const SegmentTable::MappedSegment& mapped,
                                           std::chrono::nanoseconds idle) {
  const std::shared_ptr<Segment> segment = mapped.segment;
  {
    const core::Lock lock(map_mutex_);
    if (core::now_ns() - mapped.used_at < idle.count()) return false;
    if (!map_->remove_segment(mapped.offset / kUnitBytes, segment->bytes() / kUnitBytes)) {
      return false;
    }
  }
  if (options_.on_segment_removed && !retired_.load(std::memory_order_relaxed)) {
    options_.on_segment_removed(segment);
  }
  segments_->remove(&mapped);
  cache_.set_limit(segments_->bytes() / kUnitBytes / kCachedPart);
  return true;
}

void Arena::Implementation::trim_idle(std::chrono::nanoseconds idle) {
  if (guard_.in_forked_child()) return;
  if (!grow_mutex_.try_lock()) return;
  const core::Lock growing(grow_mutex_, std::adopt_lock);
  // What the caches hold is in use as long as something allocates.
  const std::uint64_t allocations = cache_.counts().allocations;
  if (std::exchange(allocations_seen_, allocations) == allocations) flush_caches();
  const std::vector<const SegmentTable::MappedSegment*> mapped = segments_->mapped_segments();
  for (std::size_t i = 0; i < mapped.size(); ++i) {
    const bool usual = mapped[i]->segment->bytes() <= round_to_huge_pages(options_.segment_bytes);
    if (i == 0 && usual) continue;
    if (remove_if_free(*mapped[i], idle)) return;
  }
}

ArenaStats Arena::Implementation::stats() const {
  ArenaStats stats;
  if (guard_.in_forked_child()) return stats;
  stats.segments = segments_->count();
  stats.reserved_bytes = segments_->bytes();
  stats.used_bytes = used_bytes_.load(std::memory_order_relaxed);
  stats.peak_used_bytes = peak_used_bytes_.load(std::memory_order_relaxed);
  stats.failures = failures_.load(std::memory_order_relaxed);
  stats.held_back_bytes = held_back_bytes_.load(std::memory_order_relaxed);
  const BlockCache::CacheCounts counts = cache_.counts();
  stats.cached_bytes = counts.cached_units * kUnitBytes;
  stats.allocations = counts.allocations;
  stats.frees = counts.frees;
  const core::Lock lock(map_mutex_);
  stats.largest_free = map_->largest_free() * kUnitBytes;
  return stats;
}

Status Arena::Implementation::full(std::uint64_t bytes) const {
  const ArenaStats now = stats();
  return Status::error(
      StatusCode::kResourceExhausted, {.operation = "allocate"},
      "the " + options_.name + " is full: " + std::to_string(bytes) + " bytes requested, " +
          std::to_string(now.used_bytes) + " of " + std::to_string(options_.limit_bytes) +
          " bytes used, largest free block " +
          std::to_string(std::max(now.largest_free, segments_->range()->largest_gap())) + " bytes" +
          held_back_note(),
      "free arrays or other memory of the device, or raise " + options_.limit_option);
}

Status Arena::Implementation::over_quota(std::uint64_t bytes) const {
  const Quota& quota = *options_.quota;
  return Status::error(StatusCode::kResourceExhausted, {.operation = "allocate"},
                       quota.name() + " refuses " + std::to_string(bytes) + " bytes of " +
                           options_.name + ": " + std::to_string(quota.in_use()) + " of " +
                           std::to_string(quota.limit()) + " bytes in use" + held_back_note(),
                       "free arrays or other memory of the device, or raise " + quota.name());
}

std::string Arena::Implementation::held_back_note() const {
  const std::uint64_t bytes = held_back_bytes_.load(std::memory_order_relaxed);
  if (bytes == 0) return {};
  return ", " + std::to_string(bytes) + " freed bytes held back while a forked child may read them";
}

// Counts a failure; once, if memory that is held back may be the reason, logs it.
Status Arena::Implementation::refused(Status status) {
  failures_.fetch_add(1, std::memory_order_relaxed);
  if (held_back_bytes_.load(std::memory_order_relaxed) != 0 && !told_of_held_back_.exchange(true)) {
    core::log(
        core::LogLevel::kWarning,
        status.message() +
            ". Logged once: end the forked children, or fork them before the arrays are created");
  }
  return status;
}

void Arena::Implementation::count_used(std::uint64_t bytes) {
  const std::uint64_t used = used_bytes_.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  std::uint64_t peak = peak_used_bytes_.load(std::memory_order_relaxed);
  while (peak < used &&
         !peak_used_bytes_.compare_exchange_weak(peak, used, std::memory_order_relaxed)) {
  }
}

Result<std::shared_ptr<Arena>> Arena::create(ArenaOptions options) {
  if (options.limit_bytes == 0 || options.segment_bytes == 0) {
    return Status::error(StatusCode::kInvalidArgument, {.operation = "reserve memory"},
                         "the " + options.name + " has a limit or a segment size of 0 bytes",
                         "set both " + options.limit_option + " and segment_bytes");
  }
  Result<std::unique_ptr<SegmentTable>> segments =
      SegmentTable::create(options.limit_bytes, options.name);
  if (!segments.ok()) return segments.status();
  options.limit_bytes = (*segments)->range()->limit();
  options.segment_bytes = std::min(options.segment_bytes, options.limit_bytes);
  Result<std::unique_ptr<BlockMap>> map = BlockMap::create((*segments)->range()->bytes());
  if (!map.ok()) return map.status();
  auto implementation = std::make_unique<Implementation>(
      std::move(options), std::move(segments).value(), std::move(map).value());
  return std::shared_ptr<Arena>(new Arena(std::move(implementation)));
}

Arena::Arena(std::unique_ptr<Implementation> implementation)
    : implementation_(std::move(implementation)) {}

Arena::~Arena() = default;

Result<Block> Arena::allocate(std::uint64_t bytes) { return implementation_->allocate(bytes); }
void Arena::free(std::byte* data) { implementation_->free(data); }
ArenaStats Arena::stats() const { return implementation_->stats(); }
void Arena::trim_idle(std::chrono::nanoseconds idle) { implementation_->trim_idle(idle); }
void Arena::trim() { implementation_->trim(); }
void Arena::retire() { implementation_->retire(); }
void Arena::reclaim() { implementation_->reclaim(); }
const ArenaOptions& Arena::options() const { return implementation_->options(); }

bool Arena::contains(const void* address) const {
  const SegmentTable& segments = implementation_->segments();
  return segments.find(segments.offset_of(address)) != nullptr;
}

std::optional<Location> Arena::locate(const void* address) const {
  const SegmentTable& segments = implementation_->segments();
  const std::uint64_t offset = segments.offset_of(address);
  const SegmentTable::MappedSegment* const mapped = segments.find(offset);
  if (mapped == nullptr) return std::nullopt;
  return Location{mapped->raw, offset - mapped->offset};
}

}  // namespace farwrite::memory
