#include "gpu/host_pin.h"

#include <string>

#include "core/log.h"
#include "gpu/gpu_counters.h"

namespace farwrite::gpu {

void HostPin::pin(const Gpu& gpu, std::byte* base, std::uint64_t bytes, bool writable) {
  std::call_once(once_, [&] {
    const Gpu::CurrentContext current(gpu);
    const CudaDriver& driver = gpu.driver();
    unsigned flags = cuda::kRegisterPortable;
    if (!writable) flags |= cuda::kRegisterReadOnly;
    Status status = current.status();
    if (status.ok()) {
      status = driver.check(driver.register_host(base, bytes, flags), "pin host memory",
                            "cuMemHostRegister");
    }
    if (!status.ok()) {
      core::log(core::LogLevel::kWarning, "GPUs copy slower to and from a segment of " +
                                              std::to_string(bytes) +
                                              " bytes: " + status.message());
      return;
    }
    gpu_ = &gpu;
    base_ = base;
    bytes_ = bytes;
    counters().pins.add();
    counters().pinned_bytes.add(bytes);
  });
}

HostPin::~HostPin() {
  if (base_ == nullptr || fork_guard_.in_forked_child()) return;
  const Gpu::CurrentContext current(*gpu_);
  // At the process's end the driver may be gone already.
  (void)gpu_->driver().unregister_host(base_);
  counters().pinned_bytes.remove(bytes_);
}

}  // namespace farwrite::gpu
