#include "gpu/local_memory.h"

#include <array>

#include "gpu/cuda_driver.h"
#include "gpu/gpu.h"

namespace farwrite {

Status use_cuda() { return gpu::CudaDriver::open().status(); }

Result<MemoryKind> kind_of_memory(const void* address) {
  const gpu::CudaDriver* const driver = gpu::CudaDriver::opened();
  if (driver == nullptr) return MemoryKind();
  // Of memory that the driver never saw, the type is 0.
  unsigned type = 0;
  int ordinal = 0;
  constexpr std::array kAttributes = {gpu::cuda::kMemoryType, gpu::cuda::kDeviceOrdinal};
  std::array<void*, kAttributes.size()> values = {&type, &ordinal};
  const gpu::cuda::Result result =
      driver->pointer_attributes(kAttributes.size(), kAttributes.data(), values.data(),
                                 reinterpret_cast<gpu::cuda::DevicePointer>(address));
  // The process is ending, and no memory on a GPU is left.
  if (result == gpu::cuda::kDeinitialized) return MemoryKind();
  FARWRITE_RETURN_IF_ERROR(
      driver->check(result, "find the GPU of a pointer", "cuPointerGetAttributes"));
  return type == gpu::cuda::kDeviceMemory ? MemoryKind::cuda(ordinal) : MemoryKind();
}

namespace gpu {

Result<const Gpu*> gpu_of(const void* address) {
  auto kind = kind_of_memory(address);
  if (!kind.ok()) return kind.status();
  if (!kind->on_gpu()) return static_cast<const Gpu*>(nullptr);
  return Gpu::at(kind->ordinal());
}

}  // namespace gpu

Status wait_for_stream(MemoryKind gpu, std::uintptr_t stream) {
  constexpr std::string_view kOperation = "wait for a CUDA stream";
  if (!gpu.on_gpu()) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation}, "host memory has no streams",
                         "pass the GPU of the stream");
  }
  if (gpu.ordinal() < 0) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation},
                         "there is no " + gpu.to_string(), "pass the GPU of the stream");
  }
  auto found = gpu::Gpu::at(gpu.ordinal());
  if (!found.ok()) return found.status();
  const gpu::Gpu::CurrentContext current(**found);
  FARWRITE_RETURN_IF_ERROR(current.status());
  const gpu::CudaDriver& driver = (*found)->driver();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's own convention for handles.
  return driver.check(driver.synchronize_stream(reinterpret_cast<gpu::cuda::Stream>(stream)),
                      kOperation, "cuStreamSynchronize");
}

}  // namespace farwrite
