#include "device_allocator.h"

#include <iterator>

#include "counters.h"
#include "faults.h"
#include "tensorflow/core/platform/logging.h"

namespace fartest {
namespace {

constexpr std::size_t kGranularity = 256;

std::size_t rounded(std::size_t bytes) {
  return (bytes + kGranularity - 1) / kGranularity * kGranularity;
}

}  // namespace

DeviceAllocator::DeviceAllocator(const DeviceMemory* memory) : memory_(memory) {
  free_[0] = memory->bytes() / kGranularity * kGranularity;
}

void* DeviceAllocator::AllocateRaw(std::size_t alignment, std::size_t bytes) {
  CHECK_LE(alignment, kGranularity);
  const std::size_t size = rounded(bytes == 0 ? 1 : bytes);
  const std::lock_guard<std::mutex> lock(mutex_);
  auto found = free_.begin();
  while (found != free_.end() && found->second < size) ++found;
  const std::size_t limit = Faults::of_process().memory_limit();
  if (found == free_.end() || size > limit || bytes_in_use_ > limit - size) {
    ++counters().refused_allocations;
    return nullptr;
  }
  const auto [offset, room] = *found;
  free_.erase(found);
  if (room > size) free_[offset + size] = room - size;
  used_[offset].bytes = size;
  bytes_in_use_ += size;
  counters().bytes_in_use += size;
  return memory_->begin() + offset;
}

DeviceAllocator::Blocks::iterator DeviceAllocator::find(const void* address) {
  const auto offset =
      static_cast<std::size_t>(static_cast<const char*>(address) - memory_->begin());
  const auto after = used_.upper_bound(offset);
  CHECK(after != used_.begin()) << "FARTEST: no tensor is at this address";
  return std::prev(after);
}

void DeviceAllocator::DeallocateRaw(void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto block = find(address);
  if (block->second.writers == 0) return give_back(block);
  ++counters().freed_under_copy;
  block->second.freed = true;
}

void DeviceAllocator::begin_write(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  ++find(address)->second.writers;
}

void DeviceAllocator::end_write(const void* address) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto block = find(address);
  if (--block->second.writers == 0 && block->second.freed) give_back(block);
}

void DeviceAllocator::give_back(Blocks::iterator block) {
  std::size_t offset = block->first;
  std::size_t bytes = block->second.bytes;
  used_.erase(block);
  bytes_in_use_ -= bytes;
  counters().bytes_in_use -= bytes;
  auto next = free_.lower_bound(offset);
  if (next != free_.end() && next->first == offset + bytes) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto previous = std::prev(next);
    if (previous->first + previous->second == offset) {
      offset = previous->first;
      bytes += previous->second;
    }
  }
  free_[offset] = bytes;
}

}  // namespace fartest
