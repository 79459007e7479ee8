// The names of errors, which also a process that may not use the GPUs can ask for.
#include "double.h"
#include "entry.h"

namespace farwrite::cuda_double {
namespace {

struct ErrorName {
  int error;
  const char* name;
  const char* text;
};

constexpr ErrorName kErrors[] = {
    {kSuccess, "CUDA_SUCCESS", "no error"},
    {kInvalidValue, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {kOutOfMemory, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {kNotInitialized, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {4, "CUDA_ERROR_DEINITIALIZED", "driver shutting down"},
    {34, "CUDA_ERROR_STUB_LIBRARY", "the library is a stub"},
    {46, "CUDA_ERROR_DEVICE_UNAVAILABLE", "device busy or unavailable"},
    {kNoDevice, "CUDA_ERROR_NO_DEVICE", "no CUDA-capable device"},
    {kInvalidDevice, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"},
    {kInvalidContext, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {205, "CUDA_ERROR_MAP_FAILED", "mapping failed"},
    {206, "CUDA_ERROR_UNMAP_FAILED", "unmapping failed"},
    {214, "CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error"},
    {217, "CUDA_ERROR_PEER_ACCESS_UNSUPPORTED", "no peer access between two devices"},
    {kOperatingSystem, "CUDA_ERROR_OPERATING_SYSTEM", "a call to the operating system failed"},
    {kInvalidHandle, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"},
    {401, "CUDA_ERROR_ILLEGAL_STATE", "operation in an illegal state"},
    {kNotFound, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {kNotReady, "CUDA_ERROR_NOT_READY", "device not ready"},
    {kIllegalAddress, "CUDA_ERROR_ILLEGAL_ADDRESS", "illegal memory access"},
    {kContextIsDestroyed, "CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"},
    {kHostMemoryAlreadyRegistered, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED",
     "host memory is already pinned"},
    {kHostMemoryNotRegistered, "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED",
     "host memory is not pinned"},
    {kLaunchFailed, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {800, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {kNotSupported, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {802, "CUDA_ERROR_SYSTEM_NOT_READY", "system not ready"},
    {803, "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "driver and library differ in version"},
    {kUnknown, "CUDA_ERROR_UNKNOWN", "unknown error"},
};

CUresult look_up(CUresult error, const char* ErrorName::* field, const char** text) {
  if (text == nullptr) return kInvalidValue;
  *text = nullptr;
  for (const ErrorName& known : kErrors) {
    if (known.error == error) *text = known.*field;
  }
  return *text == nullptr ? kInvalidValue : kSuccess;
}

// A forked child may not be counted, but gets an answer.
CUresult answer(const char* function, CUresult error, const char* ErrorName::* field,
                const char** text) {
  if (is_forked_child()) return look_up(error, field, text);
  return enter_early(function, [&](Double&, Lock&) { return look_up(error, field, text); });
}

}  // namespace

CUresult cuGetErrorName(CUresult error, const char** name) {
  return answer("cuGetErrorName", error, &ErrorName::name, name);
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  return answer("cuGetErrorString", error, &ErrorName::text, text);
}

}  // namespace farwrite::cuda_double
