#include "gpu/gpu.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "core/mutex.h"

namespace farwrite::gpu {
namespace {

constexpr std::string_view kUseGpu = "use a GPU";

Result<bool> attribute(const CudaDriver& driver, int which, cuda::Device device) {
  int value = 0;
  FARWRITE_RETURN_IF_ERROR(driver.check(driver.device_attribute(&value, which, device), kUseGpu,
                                        "cuDeviceGetAttribute"));
  return value != 0;
}

Result<int> count_of_gpus(const CudaDriver& driver) {
  int count = 0;
  FARWRITE_RETURN_IF_ERROR(driver.check(driver.device_count(&count), kUseGpu, "cuDeviceGetCount"));
  return count;
}

Result<GpuUuid> uuid_of(const CudaDriver& driver, cuda::Device device) {
  cuda::Uuid uuid{};
  FARWRITE_RETURN_IF_ERROR(
      driver.check(driver.device_uuid(&uuid, device), kUseGpu, "cuDeviceGetUuid"));
  GpuUuid bytes{};
  std::copy(std::begin(uuid.bytes), std::end(uuid.bytes), bytes.begin());
  return bytes;
}

}  // namespace

Result<const Gpu*> Gpu::at(int ordinal) {
  static auto* const mutex = new core::Mutex(core::LockRank::kGpu);
  static auto* const gpus = new std::map<int, const Gpu*>();
  auto driver = CudaDriver::open();
  if (!driver.ok()) return driver.status();
  const core::Lock lock(*mutex);
  if (const auto found = gpus->find(ordinal); found != gpus->end()) return found->second;
  auto gpu = make(**driver, ordinal);  // a failure may pass: out of memory, for example
  if (gpu.ok()) gpus->emplace(ordinal, *gpu);
  return gpu;
}

Result<const Gpu*> Gpu::make(const CudaDriver& driver, int ordinal) {
  auto count = count_of_gpus(driver);
  if (!count.ok()) return count.status();
  if (ordinal < 0 || ordinal >= *count) {
    return Status::error(StatusCode::kInvalidArgument, {kUseGpu},
                         "there is no cuda:" + std::to_string(ordinal) + ", this process sees " +
                             std::to_string(*count) + (*count == 1 ? " GPU" : " GPUs"),
                         "count from 0, and see CUDA_VISIBLE_DEVICES");
  }
  auto gpu = std::unique_ptr<Gpu>(new Gpu());
  gpu->driver_ = &driver;
  gpu->ordinal_ = ordinal;
  FARWRITE_RETURN_IF_ERROR(
      driver.check(driver.device_get(&gpu->device_, ordinal), kUseGpu, "cuDeviceGet"));
  for (const int needed : {cuda::kHasVirtualMemory, cuda::kExportsFileDescriptors}) {
    auto has = attribute(driver, needed, gpu->device_);
    if (!has.ok()) return has.status();
    if (*has) continue;
    return Status::error(StatusCode::kUnsupported, {kUseGpu},
                         "processes cannot share the memory of cuda:" + std::to_string(ordinal) +
                             ": its driver exports no file descriptors",
                         "use host memory, or a GPU and system with CUDA's virtual memory "
                         "management");
  }
  auto uuid = uuid_of(driver, gpu->device_);
  if (!uuid.ok()) return uuid.status();
  gpu->uuid_ = *uuid;
  std::array<char, 256> text{};
  FARWRITE_RETURN_IF_ERROR(driver.check(
      driver.device_name(text.data(), text.size() - 1, gpu->device_), kUseGpu, "cuDeviceGetName"));
  gpu->name_ = text.data();
  FARWRITE_RETURN_IF_ERROR(
      driver.check(driver.device_pci_address(text.data(), text.size() - 1, gpu->device_), kUseGpu,
                   "cuDeviceGetPCIBusId"));
  gpu->pci_address_ = text.data();
  std::transform(gpu->pci_address_.begin(), gpu->pci_address_.end(), gpu->pci_address_.begin(),
                 [](unsigned char letter) { return std::tolower(letter); });
  auto dma_buf = attribute(driver, cuda::kExportsDmaBuf, gpu->device_);
  if (!dma_buf.ok()) return dma_buf.status();
  gpu->exports_dma_buf_ = *dma_buf;
  auto rdma = attribute(driver, cuda::kRdmaWithVirtualMemory, gpu->device_);
  if (!rdma.ok()) return rdma.status();
  gpu->rdma_capable_ = *rdma;
  FARWRITE_RETURN_IF_ERROR(driver.check(driver.retain_context(&gpu->context_, gpu->device_),
                                        kUseGpu, "cuDevicePrimaryCtxRetain"));
  return static_cast<const Gpu*>(gpu.release());
}

Result<const Gpu*> Gpu::with_uuid(const GpuUuid& uuid) {
  auto opened = CudaDriver::open();
  if (!opened.ok()) return opened.status();
  const CudaDriver& driver = **opened;
  auto count = count_of_gpus(driver);
  if (!count.ok()) return count.status();
  for (int ordinal = 0; ordinal < *count; ++ordinal) {
    // Without a context on a GPU that is not meant.
    cuda::Device device = 0;
    FARWRITE_RETURN_IF_ERROR(
        driver.check(driver.device_get(&device, ordinal), kUseGpu, "cuDeviceGet"));
    auto found = uuid_of(driver, device);
    if (!found.ok()) return found.status();
    if (*found == uuid) return at(ordinal);
  }
  return Status::error(StatusCode::kNotFound, {kUseGpu},
                       "the memory lies on a GPU that this process does not see",
                       "let both processes see it (CUDA_VISIBLE_DEVICES), or exchange host memory");
}

Gpu::CurrentContext::CurrentContext(const Gpu& gpu)
    : driver_(gpu.driver()),
      status_(driver_.check(driver_.push_context(gpu.context_), kUseGpu, "cuCtxPushCurrent")) {}

Gpu::CurrentContext::~CurrentContext() {
  cuda::Context popped = nullptr;
  if (status_.ok()) (void)driver_.pop_context(&popped);
}

}  // namespace farwrite::gpu
