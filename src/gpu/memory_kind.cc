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
                       "\"" + std::string(text) + "\" is no kind of memory",
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
  FARWRITE_RETURN_IF_ERROR(driver->check(
      driver->pointer_attributes(kAttributes.size(), kAttributes.data(), values.data(),
                                 reinterpret_cast<gpu::cuda::DevicePointer>(address)),
      "look at a pointer", "cuPointerGetAttributes"));
  return type == gpu::cuda::kDeviceMemory ? MemoryKind::cuda(ordinal) : MemoryKind();
}

Status copy_memory(void* destination, const void* source, std::size_t bytes) {
  if (bytes == 0) return Status();
  auto kind = kind_of_memory(source);
  if (kind.ok() && !kind->on_gpu()) kind = kind_of_memory(destination);
  if (!kind.ok()) return kind.status();
  if (!kind->on_gpu()) {
    copy_bytes(destination, source, bytes);
    return Status();
  }
  auto gpu = gpu::Gpu::at(kind->ordinal());
  if (!gpu.ok()) return gpu.status();
  return gpu::copy(**gpu, destination, source, bytes, "copy");
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
