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
  std::unique_ptr<std::atomic<MappedSegment*>[]> chunks(new (std::nothrow)
                                                            std::atomic<MappedSegment*>[count]());
  if (chunks == nullptr) {
    return core::no_memory({"reserve address space"}, "the table of '" + name + "'");
  }
  return std::unique_ptr<SegmentTable>(
      new SegmentTable(std::move(range).value(), std::move(chunks)));
}

SegmentTable::SegmentTable(std::shared_ptr<AddressRange> range,
                           std::unique_ptr<std::atomic<MappedSegment*>[]> chunks)
    : range_(std::move(range)), chunks_(std::move(chunks)) {}

void SegmentTable::add(std::shared_ptr<Segment> segment) {
  bytes_.fetch_add(segment->bytes(), std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
  Segment* const raw = segment.get();
  MappedSegment& mapped =
      mapped_.emplace_back(MappedSegment{std::move(segment), raw, offset_of(raw->base())});
  point_chunks(mapped, &mapped);
}

void SegmentTable::remove(const MappedSegment* mapped) {
  MappedSegment& mine =
      *std::find_if(mapped_.begin(), mapped_.end(),
                    [mapped](const MappedSegment& other) { return &other == mapped; });
  point_chunks(mine, nullptr);
  bytes_.fetch_sub(mine.segment->bytes(), std::memory_order_relaxed);
  count_.fetch_sub(1, std::memory_order_relaxed);
  mine.segment.reset();
}

std::vector<const SegmentTable::MappedSegment*> SegmentTable::mapped_segments() const {
  std::vector<const MappedSegment*> present;
  for (const MappedSegment& mapped : mapped_) {
    if (mapped.segment != nullptr) present.push_back(&mapped);
  }
  return present;
}

void SegmentTable::point_chunks(const MappedSegment& mapped, MappedSegment* target) {
  const std::uint64_t first = mapped.offset / kHugePageBytes;
  const std::uint64_t count = mapped.segment->bytes() / kHugePageBytes;
  for (std::uint64_t chunk = first; chunk < first + count; ++chunk) {
    chunks_[chunk].store(target, std::memory_order_release);
  }
}

}  // namespace farwrite::memory
