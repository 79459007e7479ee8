// Segment: memory that this process owns, and that fabrics register and peers map: a sealed memfd,
// or memory of a GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/unique_fd.h"
#include "farwrite/memory_kind.h"
#include "farwrite/status.h"
#include "gpu/gpu_memory.h"
#include "gpu/host_pin.h"
#include "memory/address_range.h"
#include "memory/inherited_mapping.h"
#include "memory/mapped_segment.h"
#include "memory/page_policy.h"

namespace farwrite::memory {

// Who may write the memory besides its owner. The kernel enforces it through the memfd's seals.
enum class SegmentUse : std::uint8_t {
  kExport,   // nothing: peers map it read-only and cannot obtain a writable mapping
  kLanding,  // exactly one peer; give its descriptor to nothing else
};

enum class HugePages : std::uint8_t {
  kOff,          // 4 KiB pages
  kTransparent,  // asks for huge pages, takes what the kernel allows
  kExplicit,     // hugetlbfs pages (vm.nr_hugepages), else an error
  kTryExplicit,  // hugetlbfs pages, else kTransparent and a logged line
};

struct SegmentOptions {
  std::uint64_t bytes = 0;  // > 0; rounded up to the page size (2 MiB with explicit huge pages)
  SegmentUse use = SegmentUse::kExport;
  HugePages huge_pages = HugePages::kTransparent;
  bool takes_seals = false;  // later too, from every holder of the descriptor: a witness
  bool prefault = true;      // back every page now: a first touch is up to 12x slower
  NumaPlacement numa = {};
  std::string name = "farwrite";                    // shown in /proc/<pid>/maps and in errors
  std::shared_ptr<AddressRange::Slice> place = {};  // map here (it is large enough), or anywhere
};

// Immutable after creation, so any thread may use it. It is unmapped and closed soon after the last
// owner has let go (background_release.h). A forked child has a private, copy-on-write view of it
// (InheritedMapping).
class Segment : public std::enable_shared_from_this<Segment> {
 public:
  static Result<std::shared_ptr<Segment>> create(const SegmentOptions& options);
  // All of `memory`. The CPU must not touch it.
  static std::shared_ptr<Segment> on_gpu(std::shared_ptr<gpu::GpuMemory> memory, SegmentUse use);
  ~Segment();
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::uint32_t id() const { return id_; }   // unique in this process, never 0, never reused
  std::byte* base() const { return base_; }  // aligned to 2 MiB
  std::uint64_t bytes() const { return bytes_; }
  // Stays owned by the segment; SCM_RIGHTS duplicates it. Not of a GPU's memory.
  int fd() const { return fd_.get(); }
  SegmentUse use() const { return use_; }
  bool explicit_huge_pages() const { return explicit_huge_pages_; }
  // The GPU that has the memory; null: the host's memory.
  const gpu::Gpu* gpu() const { return gpu_memory_ == nullptr ? nullptr : &gpu_memory_->gpu(); }
  // Only of a GPU's memory.
  const gpu::GpuMemory& gpu_memory() const { return *gpu_memory_; }
  // Runs when the segment goes, before its memory does. Not while others look it up.
  void at_end(std::function<void()> run) { at_end_.push_back(std::move(run)); }
  // Lets `gpu` copy from and to host memory at full speed.
  void pin(const gpu::Gpu& gpu) { pin_->pin(gpu, base_, bytes_, /*writable=*/true); }

 private:
  Segment() = default;

  std::uint32_t id_ = 0;
  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  core::UniqueFd fd_;
  SegmentUse use_ = SegmentUse::kExport;
  bool explicit_huge_pages_ = false;
  std::shared_ptr<AddressRange::Slice> place_;      // unmaps when the last owner goes
  std::optional<InheritedMapping> inherited_;       // goes before the memory and its descriptor
  std::optional<gpu::HostPin> pin_{std::in_place};  // likewise
  std::shared_ptr<gpu::GpuMemory> gpu_memory_;
  std::vector<std::function<void()>> at_end_;
};

}  // namespace farwrite::memory
