#include "memory/received_buffer.h"

#include <cstring>
#include <unordered_set>
#include <utility>

#include "core/mutex.h"
#include "tensorflow/core/common_runtime/dma_helper.h"
#include "tensorflow/core/framework/allocator.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

// Buffers that have been copied.
struct CopiedBuffers {
  core::Mutex mutex{core::LockRank::kProgram, 1};
  std::unordered_set<ReceivedBuffer*> buffers FW_GUARDED_BY(mutex);
};

CopiedBuffers& copied() {
  static CopiedBuffers* const only = new CopiedBuffers;
  return *only;
}

}  // namespace

ReceivedBuffer::~ReceivedBuffer() {
  if (!copied_.load()) return;
  const core::Lock lock(copied().mutex);
  copied().buffers.erase(this);
}

ReceivedBuffer* ReceivedBuffer::of(const tf::Tensor& tensor) {
  tf::TensorBuffer* const buffer = tf::DMAHelper::buffer(const_cast<tf::Tensor*>(&tensor));
  return buffer == nullptr ? nullptr : dynamic_cast<ReceivedBuffer*>(buffer->root_buffer());
}

ReceivedBuffer* ReceivedBuffer::read_only(const tf::Tensor& tensor) {
  ReceivedBuffer* const buffer = of(tensor);
  return buffer != nullptr && !buffer->OwnsMemory() ? buffer : nullptr;
}

Staged ReceivedBuffer::copy(fw_device* device, const void* data, std::uint64_t bytes, bool verify,
                            bool* made) {
  const auto* const begin = static_cast<const char*>(data);
  const core::Lock lock(copying_);
  *made = false;
  if (Staged again = find(device, begin, bytes, verify && writable_)) return again;
  Staged memory = stage(device, data, bytes);
  *made = memory != nullptr;
  if (memory == nullptr || !may_hold(device, bytes)) return memory;  // for this once
  memory = hold(std::move(memory), bytes);
  keep({begin, bytes, device, memory});
  return memory;
}

Staged ReceivedBuffer::find(fw_device* device, const char* begin, std::uint64_t bytes,
                            bool verify) {
  Staged changed;  // freed after the lock
  const core::Lock lock(mutex_);
  for (auto part = parts_.begin(); part != parts_.end(); ++part) {
    if (part->device != device || begin < part->begin) continue;
    const std::uint64_t offset = static_cast<std::uint64_t>(begin - part->begin);
    if (offset > part->bytes || bytes > part->bytes - offset) continue;
    if (offset % tf::Allocator::kAllocatorAlignment != 0) continue;  // no kernel could use it
    const auto* const found = static_cast<const char*>(part->memory.get()) + offset;
    if (!verify || std::memcmp(found, begin, bytes) == 0) return {part->memory, found};
    changed = std::move(part->memory);
    parts_.erase(part);
    return nullptr;
  }
  return nullptr;
}

void ReceivedBuffer::keep(StagedPart part) {
  if (!copied_.exchange(true)) {
    const core::Lock lock(copied().mutex);
    copied().buffers.insert(this);
  }
  std::vector<StagedPart> dropped;  // freed after the lock
  const core::Lock lock(mutex_);
  std::uint64_t sum = part.bytes;
  for (const StagedPart& kept : parts_) sum += kept.bytes;
  while (sum > bytes_ && !parts_.empty()) {  // overlapping views, or of another device
    sum -= parts_.front().bytes;
    dropped.push_back(std::move(parts_.front()));
    parts_.erase(parts_.begin());
  }
  parts_.push_back(std::move(part));
}

bool ReceivedBuffer::release_copies() {
  std::vector<std::vector<StagedPart>> dropped;  // freed after the locks
  const core::Lock lock(copied().mutex);
  for (ReceivedBuffer* const buffer : copied().buffers) {
    const core::Lock parts(buffer->mutex_);
    if (!buffer->parts_.empty()) dropped.push_back(std::exchange(buffer->parts_, {}));
  }
  return !dropped.empty();
}

}  // namespace farwrite::plugin
