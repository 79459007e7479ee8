#include "gpu/cuda_driver.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "core/mutex.h"

namespace farwrite::gpu {
namespace {

constexpr std::string_view kUseCuda = "use CUDA";
constexpr const char* kRemedy =
    "install NVIDIA's driver, version 525 or newer (CUDA 12), and check that `nvidia-smi` shows a "
    "GPU";
constexpr int kOldestVersion = 12000;

std::atomic<const CudaDriver*> opened_driver{nullptr};

Status unusable(const std::string& cause) {
  return Status::error(StatusCode::kUnavailable, {kUseCuda}, cause, kRemedy);
}

std::string file_name() {
  const char* const other = std::getenv("FARWRITE_CUDA_LIBRARY");
  return other == nullptr || *other == '\0' ? "libcuda.so.1" : other;
}

}  // namespace

Result<const CudaDriver*> CudaDriver::load() {
  const std::string file = file_name();
  void* const library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* const text = ::dlerror();
    return unusable(file + " cannot be opened: " + (text == nullptr ? "unknown error" : text));
  }
  std::unique_ptr<CudaDriver> driver(new CudaDriver());
  std::string missing;
#define FARWRITE_FIND(name, symbol, arguments)                                        \
  driver->name = reinterpret_cast<decltype(driver->name)>(::dlsym(library, #symbol)); \
  if (driver->name == nullptr && missing.empty()) missing = #symbol;
  FARWRITE_CUDA_FUNCTIONS(FARWRITE_FIND)
#undef FARWRITE_FIND
  if (!missing.empty()) return unusable(file + " has no " + missing + ": the driver is too old");
  if (const cuda::Result result = driver->init(0); result != cuda::kSuccess) {
    return unusable("cuInit failed: " + driver->describe(result));
  }
  int version = 0;
  FARWRITE_RETURN_IF_ERROR(
      driver->check(driver->driver_version(&version), kUseCuda, "cuDriverGetVersion"));
  if (version < kOldestVersion) {
    return unusable("the driver supports CUDA " + std::to_string(version / 1000) + "." +
                    std::to_string(version % 1000 / 10) + ": it is too old");
  }
  int devices = 0;
  FARWRITE_RETURN_IF_ERROR(
      driver->check(driver->device_count(&devices), kUseCuda, "cuDeviceGetCount"));
  if (devices == 0) return unusable("the driver sees no GPU");
  const CudaDriver* const opened = driver.release();  // for ever: threads may be inside
  opened_driver.store(opened, std::memory_order_release);
  return opened;
}

Result<const CudaDriver*> CudaDriver::open() {
  static auto* const opening = new core::Mutex(core::LockRank::kGpu);
  if (opened_driver.load(std::memory_order_acquire) == nullptr) {
    const core::Lock lock(*opening);
    // A failure may pass: the next call tries again.
    if (opened_driver.load(std::memory_order_acquire) == nullptr) {
      FARWRITE_RETURN_IF_ERROR(load().status());
    }
  }
  const CudaDriver* const driver = opened_driver.load(std::memory_order_acquire);
  FARWRITE_RETURN_IF_ERROR(driver->fork_guard_.check(kUseCuda));
  return driver;
}

const CudaDriver* CudaDriver::opened() {
  const CudaDriver* const driver = opened_driver.load(std::memory_order_acquire);
  return driver == nullptr || driver->fork_guard_.in_forked_child() ? nullptr : driver;
}

std::string CudaDriver::describe(cuda::Result result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (error_name(result, &name) != cuda::kSuccess || name == nullptr) {
    return "CUDA error " + std::to_string(result);
  }
  if (error_text(result, &text) != cuda::kSuccess || text == nullptr) return name;
  return std::string(name) + " (" + text + ")";
}

Status CudaDriver::check(cuda::Result result, std::string_view operation,
                         std::string_view call) const {
  if (result == cuda::kSuccess) return Status();
  const std::string cause = std::string(call) + " failed: " + describe(result);
  if (result == cuda::kOutOfMemory) {
    return Status::error(
        StatusCode::kResourceExhausted, {operation}, cause,
        "free memory of the GPU (`nvidia-smi` shows who uses it), or ask for less");
  }
  return Status::error(StatusCode::kUnavailable, {operation}, cause,
                       "see the GPU's state with `nvidia-smi` and the kernel's log; a failed GPU "
                       "context needs a new process");
}

}  // namespace farwrite::gpu
