#include "memory/segment_table.h"

#include <algorithm>
#include <new>
#include <utility>

#include "core/with_memory.h"

namespace farwrite::memory {

Result<std::unique_ptr<SegmentTable>> SegmentTable::create(std::uint64_t bytes,
                                                           const std::string& name) {
  Result<std::shared_ptr<AddressRange>> range =
      AddressRange::reserve(bytes, name, /*spacious=*/true);
  if (!range.ok()) return range.status();
  const std::uint64_t count = (*range)->bytes() / kHugePageBytes;
  std::unique_ptr<std::atomic<Entry*>[]> chunks(new (std::nothrow) std::atomic<Entry*>[count]());
  if (chunks == nullptr) {
    return core::no_memory({"reserve address space"}, "the table of '" + name + "'");
  }
  return std::unique_ptr<SegmentTable>(
      new SegmentTable(std::move(range).value(), std::move(chunks)));
}

SegmentTable::SegmentTable(std::shared_ptr<AddressRange> range,
                           std::unique_ptr<std::atomic<Entry*>[]> chunks)
    : range_(std::move(range)), chunks_(std::move(chunks)) {}

void SegmentTable::add(std::shared_ptr<Segment> segment) {
  bytes_.fetch_add(segment->bytes(), std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  Segment* const raw = segment.get();
  Entry& entry = entries_.emplace_back(Entry{std::move(segment), raw, offset_of(raw->base())});
  point_chunks(entry, &entry);
}

void SegmentTable::remove(const Entry* entry) {
  Entry& mine = *std::find_if(entries_.begin(), entries_.end(),
                              [entry](const Entry& other) { return &other == entry; });
  point_chunks(mine, nullptr);
  bytes_.fetch_sub(mine.segment->bytes(), std::memory_order_relaxed);
  count_.fetch_sub(1, std::memory_order_relaxed);
  mine.segment.reset();
}

std::vector<const SegmentTable::Entry*> SegmentTable::entries() const {
  std::vector<const Entry*> present;
  for (const Entry& entry : entries_) {
    if (entry.segment != nullptr) present.push_back(&entry);
  }
  return present;
}

void SegmentTable::point_chunks(const Entry& entry, Entry* target) {
  const std::uint64_t first = entry.offset / kHugePageBytes;
  const std::uint64_t count = entry.segment->bytes() / kHugePageBytes;
  for (std::uint64_t chunk = first; chunk < first + count; ++chunk) {
    chunks_[chunk].store(target, std::memory_order_release);
  }
}

}  // namespace farwrite::memory
