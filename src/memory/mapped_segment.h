// MappedSegment: a peer's segment, mapped into this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "core/fork_guard.h"
#include "core/unique_fd.h"
#include "farwrite/status.h"
#include "gpu/gpu_memory.h"
#include "gpu/host_pin.h"
#include "memory/inherited_mapping.h"

namespace farwrite::memory {

// Immutable, so any thread may use it. Unmapped and closed by the last owner. A forked child has a
// private, copy-on-write view of it, and never writes into the peer's memory. The peer may change
// the bytes at any moment: copy what you must check into private memory first.
class MappedSegment {
 public:
  // Takes over `fd`, a memfd received from a peer. Refused (kProtocolError) when it is no regular
  // memory file, is not sealed against shrinking (an access past the end would raise SIGBUS here),
  // or its size is not exactly `expected_bytes`; kPermissionDenied when `writable` but its seals
  // forbid writing. Pages the peer already backed are mapped at once; a sparse file is never filled
  // on its behalf. `witness` is kept as long as the mapping.
  static Result<std::shared_ptr<MappedSegment>> map(core::UniqueFd fd, std::uint64_t expected_bytes,
                                                    bool writable,
                                                    std::shared_ptr<const void> witness = nullptr);
  // All of `memory`, imported from a peer. The CPU must not touch it.
  static std::shared_ptr<MappedSegment> on_gpu(std::shared_ptr<gpu::GpuMemory> memory,
                                               bool writable);
  ~MappedSegment();
  MappedSegment(const MappedSegment&) = delete;
  MappedSegment& operator=(const MappedSegment&) = delete;

  const std::byte* base() const { return base_; }
  std::byte* mutable_base() const;  // aborts unless writable()
  std::uint64_t bytes() const { return bytes_; }
  bool writable() const { return writable_; }
  // Of a witness (inherited_mapping.h) whose maker's process is gone: whether children of that
  // process still have it mapped. From the first call on, what is written here reaches nothing.
  bool mapped_by_others();
  // The GPU that has the memory; null: the host's memory.
  const gpu::Gpu* gpu() const { return gpu_memory_ == nullptr ? nullptr : &gpu_memory_->gpu(); }
  // Lets `gpu` copy from and to host memory at full speed.
  void pin(const gpu::Gpu& gpu) { pin_->pin(gpu, base_, bytes_, writable_); }

 private:
  MappedSegment() = default;

  std::byte* base_ = nullptr;
  std::uint64_t bytes_ = 0;
  bool writable_ = false;
  core::ForkGuard guard_;
  core::UniqueFd fd_;
  bool left_ = false;                          // by mapped_by_others()
  std::shared_ptr<const void> witness_;        // of the maker of `fd_` that children of ours live
  std::optional<InheritedMapping> inherited_;  // goes before the memory and its descriptor
  std::optional<gpu::HostPin> pin_{std::in_place};  // likewise
  std::shared_ptr<gpu::GpuMemory> gpu_memory_;
};

}  // namespace farwrite::memory
