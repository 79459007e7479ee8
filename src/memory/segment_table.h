// SegmentTable: an arena's segments, found by address without a lock.
//
// All segments of an arena live in one reserved address range, so "is it ours, and which one" is a
// subtraction and one load from a table with an entry per 2 MiB.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "farwrite/status.h"
#include "memory/address_range.h"
#include "memory/segment.h"

namespace farwrite::memory {

// Offsets are bytes from the start of the range. Members marked "lock-free" may be called from any
// thread, all others need the caller's lock.
class SegmentTable {
 public:
  struct MappedSegment {
    std::shared_ptr<Segment> segment;  // empty once removed
    Segment* raw = nullptr;
    std::uint64_t offset = 0;
    // When a block of it was last taken or given back; under the arena's lock of the map.
    mutable std::int64_t used_at = 0;
  };

  static Result<std::unique_ptr<SegmentTable>> create(std::uint64_t bytes, const std::string& name);

  const std::shared_ptr<AddressRange>& range() const { return range_; }
  std::byte* base() const { return range_->base(); }

  // Lock-free. Of an address outside the range, some offset that find() does not know.
  std::uint64_t offset_of(const void* address) const {
    return reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(base());
  }
  // Lock-free. The segment that covers `offset`, or nullptr.
  const MappedSegment* find(std::uint64_t offset) const {
    if (offset >= range_->bytes()) return nullptr;
    return chunks_[offset / kHugePageBytes].load(std::memory_order_acquire);
  }
  // Lock-free.
  std::uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  std::uint64_t count() const { return count_.load(std::memory_order_relaxed); }

  void add(std::shared_ptr<Segment> segment);
  void remove(const MappedSegment* mapped);
  std::vector<const MappedSegment*> mapped_segments() const;

 private:
  SegmentTable(std::shared_ptr<AddressRange> range,
               std::unique_ptr<std::atomic<MappedSegment*>[]> chunks);
  void point_chunks(const MappedSegment& mapped, MappedSegment* target);

  const std::shared_ptr<AddressRange> range_;
  const std::unique_ptr<std::atomic<MappedSegment*>[]> chunks_;
  // Entries of removed segments stay: a lock-free reader may still look at one.
  std::deque<MappedSegment> mapped_;
  std::atomic<std::uint64_t> bytes_{0};
  std::atomic<std::uint64_t> count_{0};
};

}  // namespace farwrite::memory
