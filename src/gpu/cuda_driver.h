// CudaDriver: NVIDIA's libcuda, opened at run time.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "core/fork_guard.h"
#include "farwrite/status.h"
#include "gpu/cuda_types.h"

// The functions, as (name for us, the library's symbol, arguments).
#define FARWRITE_CUDA_FUNCTIONS(X)                                                                \
  X(init, cuInit, (unsigned))                                                                     \
  X(driver_version, cuDriverGetVersion, (int*))                                                   \
  X(error_name, cuGetErrorName, (Result, const char**))                                           \
  X(error_text, cuGetErrorString, (Result, const char**))                                         \
  X(device_count, cuDeviceGetCount, (int*))                                                       \
  X(device_get, cuDeviceGet, (Device*, int))                                                      \
  X(device_name, cuDeviceGetName, (char*, int, Device))                                           \
  X(device_uuid, cuDeviceGetUuid_v2, (Uuid*, Device))                                             \
  X(device_pci_address, cuDeviceGetPCIBusId, (char*, int, Device))                                \
  X(device_attribute, cuDeviceGetAttribute, (int*, int, Device))                                  \
  X(retain_context, cuDevicePrimaryCtxRetain, (Context*, Device))                                 \
  X(push_context, cuCtxPushCurrent_v2, (Context))                                                 \
  X(pop_context, cuCtxPopCurrent_v2, (Context*))                                                  \
  X(synchronize_context, cuCtxSynchronize, ())                                                    \
  X(granularity, cuMemGetAllocationGranularity, (std::size_t*, const AllocationProperties*, int)) \
  X(create_memory, cuMemCreate,                                                                   \
    (AllocationHandle*, std::size_t, const AllocationProperties*, unsigned long long))            \
  X(release_memory, cuMemRelease, (AllocationHandle))                                             \
  X(export_memory, cuMemExportToShareableHandle,                                                  \
    (void*, AllocationHandle, int, unsigned long long))                                           \
  X(import_memory, cuMemImportFromShareableHandle, (AllocationHandle*, void*, int))               \
  X(reserve_addresses, cuMemAddressReserve,                                                       \
    (DevicePointer*, std::size_t, std::size_t, DevicePointer, unsigned long long))                \
  X(free_addresses, cuMemAddressFree, (DevicePointer, std::size_t))                               \
  X(map_memory, cuMemMap,                                                                         \
    (DevicePointer, std::size_t, std::size_t, AllocationHandle, unsigned long long))              \
  X(unmap_memory, cuMemUnmap, (DevicePointer, std::size_t))                                       \
  X(set_access, cuMemSetAccess,                                                                   \
    (DevicePointer, std::size_t, const AccessDescription*, std::size_t))                          \
  X(range_handle, cuMemGetHandleForAddressRange,                                                  \
    (void*, DevicePointer, std::size_t, int, unsigned long long))                                 \
  X(register_host, cuMemHostRegister_v2, (void*, std::size_t, unsigned))                          \
  X(unregister_host, cuMemHostUnregister, (void*))                                                \
  X(pointer_attributes, cuPointerGetAttributes, (unsigned, const int*, void**, DevicePointer))    \
  X(create_stream, cuStreamCreate, (Stream*, unsigned))                                           \
  X(synchronize_stream, cuStreamSynchronize, (Stream))                                            \
  X(copy, cuMemcpyAsync, (DevicePointer, DevicePointer, std::size_t, Stream))                     \
  X(create_event, cuEventCreate, (Event*, unsigned))                                              \
  X(record_event, cuEventRecord, (Event, Stream))                                                 \
  X(query_event, cuEventQuery, (Event))                                                           \
  X(await_event, cuEventSynchronize, (Event))

namespace farwrite::gpu {
namespace cuda {

struct Functions {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a declaration
#define FARWRITE_DECLARE(name, symbol, arguments) Result(*name) arguments = nullptr;
  FARWRITE_CUDA_FUNCTIONS(FARWRITE_DECLARE)
#undef FARWRITE_DECLARE
};

}  // namespace cuda

// Opened once and never closed: its threads outlive ours. Thread-safe. In a child that was forked
// since, it is as if not opened, and cannot be: the driver itself does not work there.
class CudaDriver : public cuda::Functions {
 public:
  // kUnavailable names what is missing: the library, a function, or a GPU. The environment
  // variable FARWRITE_CUDA_LIBRARY names another file than libcuda.so.1. kForked in such a child.
  static Result<const CudaDriver*> open();
  // Null until open() has succeeded. Costs one load: the code that has no GPU memory asks this
  // first.
  static const CudaDriver* opened();

  // The driver's own name of a result, and its sentence: "CUDA_ERROR_OUT_OF_MEMORY (out of
  // memory)".
  std::string describe(cuda::Result result) const;
  // `call` is the function's name; ok for success. Out of memory is kResourceExhausted, all else
  // kUnavailable.
  Status check(cuda::Result result, std::string_view operation, std::string_view call) const;

 private:
  static Result<const CudaDriver*> load();

  const core::ForkGuard fork_guard_;
};

}  // namespace farwrite::gpu
