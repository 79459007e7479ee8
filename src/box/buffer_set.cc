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
  set.slots_[0] = {.region = *std::move(first), .number = set.next_number_++};
  set.slots_used_ = 1;
  std::byte* const memory = set.state_.data();
  store_word(memory, SegmentLayout::buffer_at(0), set.slots_[0].number);
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
  for (const Slot& slot : slots_) {
    if (number != 0 && slot.number == number) return slot.region;
  }
  return Status::error(StatusCode::kNotFound, {.operation = "open a buffer"},
                       "the segment has no buffer " + std::to_string(number), "read again");
}

std::uint64_t BufferSet::pins() const {
  std::uint64_t pins = 0;
  for (const Slot& slot : slots_) pins += slot.pins;
  for (const auto& [number, slot] : set_aside_) pins += slot.pins;
  return pins;
}

bool BufferSet::is_spare(std::uint32_t slot) const {
  const Slot& candidate = slots_[slot];
  return candidate.number != 0 && slot != current_ && candidate.pins == 0 && !candidate.filling;
}

std::uint32_t BufferSet::slot_of(std::uint64_t number) const {
  std::uint32_t slot = 0;
  while (slot < slots_used_ && slots_[slot].number != number) ++slot;
  return slot;
}

std::optional<std::uint32_t> BufferSet::grow() {
  const std::uint32_t slot = slot_of(0);
  if (slot == most_) return std::nullopt;
  Result<MemoryRegion> region = device_.allocate(at_least_one(bytes_));
  if (!region.ok()) return std::nullopt;
  if (slot == slots_used_) ++slots_used_;
  slots_[slot] = {.region = *std::move(region), .number = next_number_++};
  // No reader may take stamps of the bytes that were here for stamps of the new buffer's.
  begin_all(slot);
  store_word(state_.data(), SegmentLayout::buffer_at(slot), slots_[slot].number);
  return slot;
}

std::optional<std::uint32_t> BufferSet::take_spare(bool leave_one) {
  std::vector<std::uint32_t> spare;
  for (std::uint32_t slot = 0; slot < slots_used_; ++slot) {
    if (is_spare(slot)) spare.push_back(slot);
  }
  while (spare.size() < (leave_one ? 2U : 1U)) {
    const std::optional<std::uint32_t> more = grow();
    if (!more.has_value()) return std::nullopt;
    spare.push_back(*more);
  }
  const std::uint32_t taken = spare.front();
  slots_[taken].filling = true;
  begin_all(taken);
  return taken;
}

Status BufferSet::pin_current() {
  Slot& slot = slots_[current_];
  if (slot.pins == 0) {
    bool has_spare = false;
    for (std::uint32_t other = 0; other < slots_used_; ++other) has_spare |= is_spare(other);
    if (!has_spare && !grow().has_value()) {
      if (slot_of(0) != most_) {
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
  ++slot.pins;
  return Status();
}

void BufferSet::put_back(std::uint32_t slot) {
  // The bytes are of no version, and their chunks may get the stamps again that they had before. A
  // reader that was stopped meanwhile sees that the buffer is another one.
  slots_[slot].number = next_number_++;
  store_word(state_.data(), SegmentLayout::buffer_at(slot), slots_[slot].number);
  slots_[slot].filling = false;
  release_unused();
}

void BufferSet::unpin(std::uint64_t number) {
  if (const auto aside = set_aside_.find(number); aside != set_aside_.end()) {
    if (--aside->second.pins == 0) set_aside_.erase(aside);
    return;
  }
  --slots_[slot_of(number)].pins;
  release_unused();
}

bool BufferSet::set_aside(std::uint64_t number) {
  const std::uint32_t slot = slot_of(number);
  if (slot == slots_used_ || slot == current_ || slots_[slot].pins == 0) return false;
  set_aside_[number] = std::exchange(slots_[slot], Slot());
  return true;
}

void BufferSet::free() {
  store_word(state_.data(), SegmentLayout::kCurrentAt, SegmentLayout::kFreed);
  freed_ = true;
  release_unused();
}

void BufferSet::release_unused() {
  if (!freed_) return;
  for (Slot& slot : slots_) {
    if (slot.pins == 0 && !slot.filling) slot.region = MemoryRegion();
  }
}

void BufferSet::begin(std::uint32_t slot) {
  std::byte* const memory = state_.data();
  const std::uint64_t at = SegmentLayout::stamp_at(slot);
  store_word(memory, at, load_word(memory, at) | 1);
  fence_before_bytes();
}

void BufferSet::begin_chunk(std::uint32_t slot, std::uint64_t chunk) {
  std::byte* const memory = state_.data();
  const std::uint64_t at = chunk_at(slot, chunk);
  store_word(memory, at, load_word(memory, at) | 1);
  fence_before_bytes();
}

void BufferSet::begin_all(std::uint32_t slot) {
  begin(slot);
  for (std::uint64_t chunk = 0; chunk < chunks(); ++chunk) begin_chunk(slot, chunk);
}

void BufferSet::end_chunk(std::uint32_t slot, std::uint64_t chunk, bool fresh) {
  std::byte* const memory = state_.data();
  const std::uint64_t before = SegmentLayout::version(load_word(memory, chunk_at(current_, chunk)));
  store_word(memory, chunk_at(slot, chunk), SegmentLayout::stamp(before + (fresh ? 1 : 0)));
}

VersionId BufferSet::finish(std::uint32_t slot, std::uint64_t epoch) {
  std::byte* const memory = state_.data();
  const std::uint64_t next = version() + 1;
  const std::uint64_t epoch_at = SegmentLayout::epoch_at(slot);
  // No reader may pair the new stamp with the old epoch, or the old stamp with the new epoch.
  const bool changes = load_word(memory, epoch_at) != epoch;
  if (changes) store_word(memory, epoch_at, 0);
  store_word(memory, SegmentLayout::stamp_at(slot), SegmentLayout::stamp(next));
  if (changes) store_word(memory, epoch_at, epoch);
  slots_[slot].filling = false;
  current_ = slot;
  store_word(memory, SegmentLayout::kCurrentAt, slot);
  store_word(memory, SegmentLayout::kEpochAt, epoch);
  store_word(memory, SegmentLayout::kVersionAt, next);
  return {.epoch = epoch, .version = next};
}

}  // namespace farwrite::box
