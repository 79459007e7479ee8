// GpuMemory: memory of a GPU that processes on one host share, mapped in this process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>

#include "core/fork_guard.h"
#include "core/unique_fd.h"
#include "farwrite/status.h"
#include "gpu/gpu.h"

namespace farwrite::gpu {

// Immutable, so any thread may use it. The last owner waits until the GPU has no work of this
// process, and unmaps it; the GPU's memory itself is free once no process maps it. The CPU must not
// touch it.
class GpuMemory {
 public:
  // At least `bytes`, rounded up to the GPU's granularity (2 MiB); contents are undefined.
  // kResourceExhausted when the GPU is full.
  static Result<std::shared_ptr<GpuMemory>> allocate(const Gpu& gpu, std::uint64_t bytes);
  // A peer's, by the descriptor that its GpuMemory exported. kProtocolError when it is no GPU
  // memory, or not of `bytes` bytes.
  static Result<std::shared_ptr<GpuMemory>> import(const Gpu& gpu, core::UniqueFd fd,
                                                   std::uint64_t bytes, bool writable);
  ~GpuMemory();
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;

  std::byte* base() const { return reinterpret_cast<std::byte*>(base_); }
  std::uint64_t bytes() const { return bytes_; }
  const Gpu& gpu() const { return gpu_; }
  // What a peer imports. Close it once it is handed over: it keeps the memory. Only of memory that
  // this process allocated.
  Result<core::UniqueFd> export_fd() const;
  // A dma-buf of all its bytes, for a driver that reads or writes them. kUnsupported where the
  // GPU's driver exports none.
  Result<core::UniqueFd> dma_buf() const;

 private:
  explicit GpuMemory(const Gpu& gpu) : gpu_(gpu) {}
  // The mapping keeps the memory.
  Status map(cuda::AllocationHandle handle, bool writable, std::string_view operation);

  const Gpu& gpu_;
  cuda::DevicePointer base_ = 0;
  std::uint64_t bytes_ = 0;
  bool mapped_ = false;
  bool counted_ = false;
  cuda::AllocationHandle handle_ = 0;  // of memory that this process allocated
  const core::ForkGuard fork_guard_;
};

}  // namespace farwrite::gpu
