#include "farwrite/memory_kind.h"

#include <array>
#include <charconv>

#include "farwrite/copy.h"
#include "gpu/cuda_driver.h"
#include "gpu/gpu.h"
#include "gpu/gpu_copy.h"

namespace farwrite {

Result<MemoryKind> MemoryKind::parse(std::string_view text) {
  constexpr std::string_view kCuda = "cuda";
  if (text == "host") return MemoryKind();
  if (text == kCuda) return cuda(0);
  int ordinal = -1;
  if (text.starts_with(kCuda) && text.size() > kCuda.size() + 1 && text[kCuda.size()] == ':') {
    const std::string_view digits = text.substr(kCuda.size() + 1);
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    if (error == std::errc() && end == digits.data() + digits.size() && digits[0] != '-') {
      return cuda(ordinal);
    }
  }
  return Status::error(StatusCode::kInvalidArgument, {"read a memory kind"},
                       "\"" + std::string(text) + "\" is not a kind of memory",
                       "use \"host\", \"cuda\" or \"cuda:0\"");
}

std::string MemoryKind::to_string() const {
  return on_gpu() ? "cuda:" + std::to_string(ordinal_) : "host";
}

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

Status copy_memory(void* destination, const void* source, std::size_t bytes) {
  if (bytes == 0) return Status();
  constexpr std::string_view kOperation = "copy";
  auto from = gpu::gpu_of(source);
  if (!from.ok()) return from.status();
  auto to = gpu::gpu_of(destination);
  if (!to.ok()) return to.status();
  FARWRITE_RETURN_IF_ERROR(gpu::check_one_gpu(*from, *to, kOperation));
  const gpu::Gpu* const gpu = *from != nullptr ? *from : *to;
  if (gpu != nullptr) return gpu::copy(*gpu, destination, source, bytes, kOperation);
  copy_bytes(destination, source, bytes);
  return Status();
}

Status wait_for_stream(MemoryKind gpu, std::uintptr_t stream) {
  constexpr std::string_view kOperation = "wait for a CUDA stream";
  if (!gpu.on_gpu()) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation}, "host memory has no streams",
                         "pass the GPU of the stream");
  }
  auto found = gpu::Gpu::at(gpu.ordinal());
  if (!found.ok()) return found.status();
  const gpu::Gpu::Current current(**found);
  FARWRITE_RETURN_IF_ERROR(current.status());
  const gpu::CudaDriver& driver = (*found)->driver();
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the driver's own convention for handles.
  return driver.check(driver.synchronize_stream(reinterpret_cast<gpu::cuda::Stream>(stream)),
                      kOperation, "cuStreamSynchronize");
}

}  // namespace farwrite
