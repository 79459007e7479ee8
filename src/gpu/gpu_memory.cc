#include "gpu/gpu_memory.h"

#include <string>
#include <utility>

#include "gpu/gpu_counters.h"

namespace farwrite::gpu {
namespace {

constexpr std::string_view kAllocate = "allocate GPU memory";
constexpr std::string_view kImport = "map a peer's GPU memory";

cuda::Location location_of(const Gpu& gpu) { return {cuda::kOnDevice, gpu.ordinal()}; }

cuda::AllocationProperties properties_for(const Gpu& gpu) {
  cuda::AllocationProperties properties{};
  properties.type = cuda::kPinnedAllocation;
  properties.handle_types = cuda::kPosixFileDescriptor;
  properties.location = location_of(gpu);
  properties.flags.rdma_capable = gpu.rdma_capable() ? 1 : 0;
  return properties;
}

}  // namespace

Result<std::shared_ptr<GpuMemory>> GpuMemory::allocate(const Gpu& gpu, std::uint64_t bytes) {
  const Gpu::CurrentContext current(gpu);
  FARWRITE_RETURN_IF_ERROR(current.status());
  const CudaDriver& driver = gpu.driver();
  const cuda::AllocationProperties properties = properties_for(gpu);
  std::size_t unit = 0;
  FARWRITE_RETURN_IF_ERROR(
      driver.check(driver.granularity(&unit, &properties, cuda::kMinimumGranularity), kAllocate,
                   "cuMemGetAllocationGranularity"));
  constexpr std::uint64_t kMost = std::uint64_t{1} << 56;
  if (bytes > kMost) {
    return Status::error(StatusCode::kInvalidArgument, {kAllocate},
                         std::to_string(bytes) + " bytes are impossible", "ask for less");
  }
  std::shared_ptr<GpuMemory> memory(new GpuMemory(gpu));
  memory->bytes_ = bytes == 0 ? unit : (bytes + unit - 1) / unit * unit;
  FARWRITE_RETURN_IF_ERROR(
      driver.check(driver.create_memory(&memory->handle_, memory->bytes_, &properties, 0),
                   kAllocate, "cuMemCreate"));
  FARWRITE_RETURN_IF_ERROR(memory->map(memory->handle_, /*writable=*/true, kAllocate));
  return memory;
}

Result<std::shared_ptr<GpuMemory>> GpuMemory::import(const Gpu& gpu, core::UniqueFd fd,
                                                     std::uint64_t bytes, bool writable) {
  const Gpu::CurrentContext current(gpu);
  FARWRITE_RETURN_IF_ERROR(current.status());
  const CudaDriver& driver = gpu.driver();
  cuda::AllocationHandle handle = 0;
  void* const os_handle = reinterpret_cast<void*>(static_cast<std::intptr_t>(fd.get()));
  const cuda::Result result = driver.import_memory(&handle, os_handle, cuda::kPosixFileDescriptor);
  if (result == cuda::kOutOfMemory) {
    return driver.check(result, kImport, "cuMemImportFromShareableHandle");
  }
  if (result != cuda::kSuccess) {
    return Status::error(
        StatusCode::kProtocolError, {kImport},
        "the descriptor is no memory of " + gpu.name() + ": " + driver.describe(result),
        "run the same version of Farwrite on both sides");
  }
  std::shared_ptr<GpuMemory> memory(new GpuMemory(gpu));
  memory->bytes_ = bytes;
  const Status mapped = memory->map(handle, writable, kImport);
  const Status released = driver.check(driver.release_memory(handle), kImport, "cuMemRelease");
  FARWRITE_RETURN_IF_ERROR(mapped);
  FARWRITE_RETURN_IF_ERROR(released);
  return memory;
}

Status GpuMemory::map(cuda::AllocationHandle handle, bool writable, std::string_view operation) {
  const CudaDriver& driver = gpu_.driver();
  FARWRITE_RETURN_IF_ERROR(driver.check(driver.reserve_addresses(&base_, bytes_, 0, 0, 0),
                                        operation, "cuMemAddressReserve"));
  FARWRITE_RETURN_IF_ERROR(
      driver.check(driver.map_memory(base_, bytes_, 0, handle, 0), operation, "cuMemMap"));
  mapped_ = true;
  const cuda::AccessDescription access{location_of(gpu_),
                                       writable ? cuda::kReadWrite : cuda::kReadOnly};
  FARWRITE_RETURN_IF_ERROR(
      driver.check(driver.set_access(base_, bytes_, &access, 1), operation, "cuMemSetAccess"));
  counters().mappings.add();
  counters().mapped_bytes.add(bytes_);
  counted_ = true;
  return Status();
}

Result<core::UniqueFd> GpuMemory::export_fd() const {
  const Gpu::CurrentContext current(gpu_);
  FARWRITE_RETURN_IF_ERROR(current.status());
  int fd = -1;
  FARWRITE_RETURN_IF_ERROR(
      gpu_.driver().check(gpu_.driver().export_memory(&fd, handle_, cuda::kPosixFileDescriptor, 0),
                          "export GPU memory", "cuMemExportToShareableHandle"));
  return core::UniqueFd(fd);
}

Result<core::UniqueFd> GpuMemory::dma_buf() const {
  constexpr std::string_view kExport = "export GPU memory to an adapter";
  if (!gpu_.exports_dma_buf()) {
    return Status::error(StatusCode::kUnsupported, {kExport},
                         "the driver of " + gpu_.name() + " exports no dma-buf",
                         "use NVIDIA's open kernel modules, version 515 or newer, and Linux 5.12");
  }
  const Gpu::CurrentContext current(gpu_);
  FARWRITE_RETURN_IF_ERROR(current.status());
  int fd = -1;
  FARWRITE_RETURN_IF_ERROR(
      gpu_.driver().check(gpu_.driver().range_handle(&fd, base_, bytes_, cuda::kDmaBuf, 0), kExport,
                          "cuMemGetHandleForAddressRange"));
  return core::UniqueFd(fd);
}

GpuMemory::~GpuMemory() {
  if (fork_guard_.in_forked_child()) return;  // the driver is the parent's
  const Gpu::CurrentContext current(gpu_);
  const CudaDriver& driver = gpu_.driver();
  // Other libraries let go of a view when its last kernel is queued, and unmapping does not wait.
  if (mapped_) (void)driver.synchronize_context();
  // Nothing can be done about a failure, and at the process's end the driver may be gone already.
  if (mapped_) (void)driver.unmap_memory(base_, bytes_);
  if (counted_) counters().mapped_bytes.remove(bytes_);
  if (base_ != 0) (void)driver.free_addresses(base_, bytes_);
  if (handle_ != 0) (void)driver.release_memory(handle_);
}

}  // namespace farwrite::gpu
