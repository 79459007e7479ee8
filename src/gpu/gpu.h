// Gpu: one GPU of this process, with the context that the CUDA runtime and all frameworks share.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "farwrite/status.h"
#include "gpu/cuda_driver.h"

namespace farwrite::gpu {

// Identifies a GPU on all hosts and in all processes, whatever number it has there.
using GpuUuid = std::array<std::uint8_t, 16>;

class Gpu;

// The GPU that has the memory at `address`; null: the host.
Result<const Gpu*> gpu_of(const void* address);

// Made once per GPU, at its first use, and never destroyed. Immutable, so any thread may use it.
class Gpu {
 public:
  // kUnavailable without a driver; kInvalidArgument for a number that no GPU has; kUnsupported for
  // a GPU whose memory processes cannot share.
  static Result<const Gpu*> at(int ordinal);
  // kNotFound if this process does not see the GPU.
  static Result<const Gpu*> with_uuid(const GpuUuid& uuid);

  int ordinal() const { return ordinal_; }
  const GpuUuid& uuid() const { return uuid_; }
  const std::string& name() const { return name_; }                // "NVIDIA H200"
  const std::string& pci_address() const { return pci_address_; }  // as sysfs writes it
  bool exports_dma_buf() const { return exports_dma_buf_; }
  bool rdma_capable() const { return rdma_capable_; }
  const CudaDriver& driver() const { return *driver_; }

  // Makes the GPU's context the thread's current one for as long as it lives.
  class CurrentContext {
   public:
    explicit CurrentContext(const Gpu& gpu);
    ~CurrentContext();
    CurrentContext(const CurrentContext&) = delete;
    CurrentContext& operator=(const CurrentContext&) = delete;
    const Status& status() const { return status_; }

   private:
    const CudaDriver& driver_;
    Status status_;
  };

 private:
  Gpu() = default;
  static Result<const Gpu*> make(const CudaDriver& driver, int ordinal);

  const CudaDriver* driver_ = nullptr;
  int ordinal_ = 0;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  GpuUuid uuid_{};
  std::string name_;
  std::string pci_address_;
  bool exports_dma_buf_ = false;
  bool rdma_capable_ = false;
};

}  // namespace farwrite::gpu
