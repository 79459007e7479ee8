#include "gpu/gpu_copy.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "core/cpu_relax.h"
#include "core/mutex.h"
#include "gpu/gpu_counters.h"

namespace farwrite::gpu {
namespace {

// A thread that blocks is woken up to 300 us late. So it polls for as long as the copy takes over a
// slow bus, but never for longer than 20 ms.
std::chrono::nanoseconds polling_time(std::uint64_t bytes) {
  constexpr std::chrono::nanoseconds kLeast = std::chrono::microseconds(50);
  constexpr std::chrono::nanoseconds kMost = std::chrono::milliseconds(20);
  constexpr std::uint64_t kBytesPerNanosecond = 16;
  return std::min(kMost, kLeast + std::chrono::nanoseconds(bytes / kBytesPerNanosecond));
}

cuda::DevicePointer pointer(const void* address) {
  return reinterpret_cast<cuda::DevicePointer>(address);
}

// A stream with the events that tell its end, to a thread that polls and to one that blocks. Each
// copy has one of its own meanwhile.
struct CopyStream {
  cuda::Stream stream = nullptr;
  cuda::Event polled = nullptr;
  cuda::Event blocking = nullptr;  // it costs an interrupt, even if nothing blocks
};

// The streams of all GPUs that no copy uses now, kept until the process ends. Thread-safe.
class IdleStreams {
 public:
  static IdleStreams& get() {
    static auto* const streams = new IdleStreams();
    return *streams;
  }

  // The GPU's context is current.
  Result<CopyStream> take(const Gpu& gpu, std::string_view operation) {
    {
      const core::Lock lock(mutex_);
      std::vector<CopyStream>& idle = idle_[gpu.ordinal()];
      if (!idle.empty()) {
        const CopyStream taken = idle.back();
        idle.pop_back();
        return taken;
      }
    }
    const CudaDriver& driver = gpu.driver();
    CopyStream made;
    // If the rest fails, what was made already is rare enough to be left alone.
    FARWRITE_RETURN_IF_ERROR(driver.check(driver.create_event(&made.polled, cuda::kUntimedEvent),
                                          operation, "cuEventCreate"));
    FARWRITE_RETURN_IF_ERROR(driver.check(
        driver.create_event(&made.blocking, cuda::kBlockingEvent | cuda::kUntimedEvent), operation,
        "cuEventCreate"));
    FARWRITE_RETURN_IF_ERROR(driver.check(
        driver.create_stream(&made.stream, cuda::kNonBlockingStream), operation, "cuStreamCreate"));
    return made;
  }
  void give_back(const Gpu& gpu, CopyStream stream) {
    const core::Lock lock(mutex_);
    idle_[gpu.ordinal()].push_back(stream);
  }

 private:
  core::Mutex mutex_{core::LockRank::kGpu};
  std::map<int, std::vector<CopyStream>> idle_ FW_GUARDED_BY(mutex_);
};

Status await(const CudaDriver& driver, const CopyStream& stream, std::uint64_t bytes,
             std::string_view operation) {
  FARWRITE_RETURN_IF_ERROR(
      driver.check(driver.record_event(stream.polled, stream.stream), operation, "cuEventRecord"));
  const auto until = std::chrono::steady_clock::now() + polling_time(bytes);
  while (true) {
    const cuda::Result result = driver.query_event(stream.polled);
    if (result != cuda::kNotReady) return driver.check(result, operation, "cuEventQuery");
    if (std::chrono::steady_clock::now() >= until) break;
    core::cpu_relax();
  }
  FARWRITE_RETURN_IF_ERROR(driver.check(driver.record_event(stream.blocking, stream.stream),
                                        operation, "cuEventRecord"));
  return driver.check(driver.await_event(stream.blocking), operation, "cuEventSynchronize");
}

}  // namespace

Status check_one_gpu(const Gpu* one, const Gpu* other, std::string_view operation) {
  if (one == nullptr || other == nullptr || one == other) return Status();
  return Status::error(StatusCode::kUnsupported, {operation},
                       "one side lies on cuda:" + std::to_string(one->ordinal()) +
                           ", the other on cuda:" + std::to_string(other->ordinal()),
                       "copy to the other GPU first, or to host memory");
}

Status copy(const Gpu& gpu, void* destination, const void* source, std::uint64_t bytes,
            std::string_view operation) {
  if (bytes == 0) return Status();
  const Gpu::CurrentContext current(gpu);
  FARWRITE_RETURN_IF_ERROR(current.status());
  auto stream = IdleStreams::get().take(gpu, operation);
  if (!stream.ok()) return stream.status();
  const CudaDriver& driver = gpu.driver();
  Status status =
      driver.check(driver.copy(pointer(destination), pointer(source), bytes, stream->stream),
                   operation, "cuMemcpyAsync");
  if (status.ok()) {
    status = await(driver, *stream, bytes, operation);
    // Whatever failed: nothing moves behind the caller's back.
    if (!status.ok()) (void)driver.synchronize_stream(stream->stream);
  }
  IdleStreams::get().give_back(gpu, *stream);
  FARWRITE_RETURN_IF_ERROR(status);
  counters().copies.add();
  counters().copied_bytes.add(bytes);
  return Status();
}

}  // namespace farwrite::gpu
