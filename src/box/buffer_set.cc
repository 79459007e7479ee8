#include "box/buffer_set.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <utility>

#include "box/memory_used_up.h"

namespace farwrite::box {
namespace {

// A segment without bytes has a buffer as well, so that nothing needs to know.
std::uint64_t at_least_one(std::uint64_t bytes) { return std::max<std::uint64_t>(bytes, 1); }

Status no_memory(const Device& device, const Status& status, std::uint64_t bytes) {
  return no_memory_for(device, status, "create a segment",
                       "a buffer of " + std::to_string(bytes) + " bytes", bytes);
}

// Streaming stores are not ordered behind ordinary ones: a full fence keeps "it changes" ahead of
// the bytes that do.
void fence_before_bytes() { std::atomic_thread_fence(std::memory_order_seq_cst); }

}  // namespace

Result<BufferSet> BufferSet::create(Device device, std::uint64_t bytes, std::uint32_t most,
                                    const VersionId& id) {
  BufferSet set(std::move(device), bytes, most);
  Result<MemoryRegion> state = set.device_.allocate(SegmentLayout::size(bytes));
  if (!state.ok()) return no_memory(set.device_, state.status(), bytes);
  set.state_ = *std::move(state);
  std::memset(set.state_.data(), 0, set.state_.size());
  Result<MemoryRegion> first = set.device_.allocate(at_least_one(bytes));
  if (!first.ok()) return no_memory(set.device_, first.status(), bytes);
  std::memset(first->data(), 0, first->size());
  set.rows_[0] = {.region = *std::move(first), .number = set.next_number_++};
  set.rows_used_ = 1;
  std::byte* const memory = set.state_.data();
  store_word(memory, SegmentLayout::buffer_at(0), set.rows_[0].number);
  for (std::uint64_t chunk = 0; chunk < set.chunks(); ++chunk) {
    store_word(memory, set.chunk_at(0, chunk), SegmentLayout::stamp(id.version));
  }
  store_word(memory, SegmentLayout::stamp_at(0), SegmentLayout::stamp(id.version));
  store_word(memory, SegmentLayout::epoch_at(0), id.epoch);
  store_word(memory, SegmentLayout::kEpochAt, id.epoch);
  store_word(memory, SegmentLayout::kVersionAt, id.version);
  return set;
}

Result<MemoryRegion> BufferSet::buffer(std::uint64_t number) const {
  for (const HostedBuffer& buffer : rows_) {
    if (number != 0 && buffer.number == number) return buffer.region;
  }
  return Status::error(StatusCode::kNotFound, {.operation = "open a buffer"},
                       "the segment has no buffer " + std::to_string(number), "read again");
}

std::uint64_t BufferSet::pins() const {
  std::uint64_t pins = 0;
  for (const HostedBuffer& buffer : rows_) pins += buffer.pins;
  for (const auto& [number, buffer] : set_aside_) pins += buffer.pins;
  return pins;
}

bool BufferSet::is_spare(std::uint32_t row) const {
  const HostedBuffer& candidate = rows_[row];
  return candidate.number != 0 && row != current_ && candidate.pins == 0 && !candidate.filling;
}

std::uint32_t BufferSet::row_of(std::uint64_t number) const {
  std::uint32_t row = 0;
  while (row < rows_used_ && rows_[row].number != number) ++row;
  return row;
}

std::optional<std::uint32_t> BufferSet::grow() {
  const std::uint32_t row = row_of(0);
  if (row == most_) return std::nullopt;
  Result<MemoryRegion> region = device_.allocate(at_least_one(bytes_));
  if (!region.ok()) return std::nullopt;
  if (row == rows_used_) ++rows_used_;
  rows_[row] = {.region = *std::move(region), .number = next_number_++};
  // No reader may take stamps of the bytes that were here for stamps of the new buffer's.
  begin_all(row);
  store_word(state_.data(), SegmentLayout::buffer_at(row), rows_[row].number);
  return row;
}

std::optional<std::uint32_t> BufferSet::take_spare(bool leave_one) {
  std::vector<std::uint32_t> spare;
  for (std::uint32_t row = 0; row < rows_used_; ++row) {
    if (is_spare(row)) spare.push_back(row);
  }
  while (spare.size() < (leave_one ? 2U : 1U)) {
    const std::optional<std::uint32_t> more = grow();
    if (!more.has_value()) return std::nullopt;
    spare.push_back(*more);
  }
  const std::uint32_t taken = spare.front();
  rows_[taken].filling = true;
  begin_all(taken);
  return taken;
}

Status BufferSet::pin_current() {
  HostedBuffer& buffer = rows_[current_];
  if (buffer.pins == 0) {
    bool has_spare = false;
    for (std::uint32_t other = 0; other < rows_used_; ++other) has_spare |= is_spare(other);
    if (!has_spare && !grow().has_value()) {
      if (row_of(0) != most_) {
        return memory_used_up(
            device_, "lease a segment",
            "the version that comes next, of " + std::to_string(bytes_) + " bytes",
            "close leases and models of other versions and drop their arrays");
      }
      return Status::error(StatusCode::kResourceExhausted, {.operation = "lease a segment"},
                           "its " + std::to_string(most_) +
                               " buffers are in use: other versions are leased, or being written",
                           kReleaseVersions);
    }
  }
  ++buffer.pins;
  return Status();
}

void BufferSet::put_back(std::uint32_t row) {
  // The bytes are of no version, and their chunks may get the stamps again that they had before. A
  // reader that was stopped meanwhile sees that the buffer is another one.
  rows_[row].number = next_number_++;
  store_word(state_.data(), SegmentLayout::buffer_at(row), rows_[row].number);
  rows_[row].filling = false;
  release_unused();
}

void BufferSet::unpin(std::uint64_t number) {
  if (const auto aside = set_aside_.find(number); aside != set_aside_.end()) {
    if (--aside->second.pins == 0) set_aside_.erase(aside);
    return;
  }
  --rows_[row_of(number)].pins;
  release_unused();
}

bool BufferSet::set_aside(std::uint64_t number) {
  const std::uint32_t row = row_of(number);
  if (row == rows_used_ || row == current_ || rows_[row].pins == 0) return false;
  set_aside_[number] = std::exchange(rows_[row], HostedBuffer());
  return true;
}

void BufferSet::free() {
  store_word(state_.data(), SegmentLayout::kCurrentAt, SegmentLayout::kFreed);
  freed_ = true;
  release_unused();
}

void BufferSet::release_unused() {
  if (!freed_) return;
  for (HostedBuffer& buffer : rows_) {
    if (buffer.pins == 0 && !buffer.filling) buffer.region = MemoryRegion();
  }
}

void BufferSet::begin(std::uint32_t row) {
  std::byte* const memory = state_.data();
  const std::uint64_t at = SegmentLayout::stamp_at(row);
  store_word(memory, at, load_word(memory, at) | 1);
  fence_before_bytes();
}

void BufferSet::begin_chunk(std::uint32_t row, std::uint64_t chunk) {
  std::byte* const memory = state_.data();
  const std::uint64_t at = chunk_at(row, chunk);
  store_word(memory, at, load_word(memory, at) | 1);
  fence_before_bytes();
}

void BufferSet::begin_all(std::uint32_t row) {
  begin(row);
  for (std::uint64_t chunk = 0; chunk < chunks(); ++chunk) begin_chunk(row, chunk);
}

void BufferSet::end_chunk(std::uint32_t row, std::uint64_t chunk, bool fresh) {
  std::byte* const memory = state_.data();
  const std::uint64_t before = SegmentLayout::version(load_word(memory, chunk_at(current_, chunk)));
  store_word(memory, chunk_at(row, chunk), SegmentLayout::stamp(before + (fresh ? 1 : 0)));
}

VersionId BufferSet::finish(std::uint32_t row, std::uint64_t epoch) {
  std::byte* const memory = state_.data();
  const std::uint64_t next = version() + 1;
  const std::uint64_t epoch_at = SegmentLayout::epoch_at(row);
  // No reader may pair the new stamp with the old epoch, or the old stamp with the new epoch.
  const bool changes = load_word(memory, epoch_at) != epoch;
  if (changes) store_word(memory, epoch_at, 0);
  store_word(memory, SegmentLayout::stamp_at(row), SegmentLayout::stamp(next));
  if (changes) store_word(memory, epoch_at, epoch);
  rows_[row].filling = false;
  current_ = row;
  store_word(memory, SegmentLayout::kCurrentAt, row);
  store_word(memory, SegmentLayout::kEpochAt, epoch);
  store_word(memory, SegmentLayout::kVersionAt, next);
  return {.epoch = epoch, .version = next};
}

}  // namespace farwrite::box
