// RegionMemory: what a region is made of: a block of an arena, or a whole segment on a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "farwrite/memory_kind.h"
#include "farwrite/status.h"
#include "memory/arena.h"
#include "memory/segment.h"

namespace farwrite::device {

// Moved from hand to hand; freed by the last one, explicitly, because memory that a peer may still
// write goes into quarantine instead. Thread-compatible.
class RegionMemory {
 public:
  static Result<RegionMemory> in(std::shared_ptr<memory::Arena> arena, std::uint64_t bytes) {
    auto block = arena->allocate(bytes);
    if (!block.ok()) return block.status();
    return RegionMemory(std::move(arena), *block, nullptr);
  }
  // On the GPU that `kind` names.
  static Result<RegionMemory> on_gpu(MemoryKind kind, std::uint64_t bytes, memory::SegmentUse use) {
    auto gpu = gpu::Gpu::at(kind.ordinal());
    if (!gpu.ok()) return gpu.status();
    auto memory = gpu::GpuMemory::allocate(**gpu, bytes);
    if (!memory.ok()) return memory.status();
    auto segment = memory::Segment::on_gpu(*std::move(memory), use);
    const memory::Block block{segment->base(), segment->bytes(), segment.get(), 0};
    return RegionMemory(nullptr, block, std::move(segment));
  }

  std::byte* data() const { return block_.data; }
  std::uint64_t bytes() const { return block_.bytes; }  // usable, at least what was asked for
  std::uint64_t offset() const { return block_.offset; }
  std::shared_ptr<memory::Segment> segment() const { return block_.segment->shared_from_this(); }
  MemoryKind kind() const {
    const gpu::Gpu* const gpu = block_.segment->gpu();
    return gpu == nullptr ? MemoryKind() : MemoryKind::cuda(gpu->ordinal());
  }

  // Once. Nothing uses the memory any more.
  void free() {
    if (arena_ != nullptr) arena_->free(block_.data);
    segment_.reset();
  }

 private:
  RegionMemory(std::shared_ptr<memory::Arena> arena, memory::Block block,
               std::shared_ptr<memory::Segment> segment)
      : arena_(std::move(arena)), block_(block), segment_(std::move(segment)) {}

  std::shared_ptr<memory::Arena> arena_;  // null for memory on a GPU
  memory::Block block_;
  std::shared_ptr<memory::Segment> segment_;  // null for a block of an arena
};

}  // namespace farwrite::device
