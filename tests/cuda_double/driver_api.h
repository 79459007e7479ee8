// The part of NVIDIA's driver API (CUDA 12 and 13) that the double offers.
//
// Symbols, numbers and layouts are the driver's, because callers look the symbols up in
// libcuda.so.1. The constants have names of our own. Nothing here needs NVIDIA's header.
#pragma once

#include <cstddef>

#define CUDA_DOUBLE_API __attribute__((visibility("default")))

namespace farwrite::cuda_double {

struct Context;
struct Event;
struct Stream;

using CUdevice = int;
using CUdeviceptr = unsigned long long;
using CUmemGenericAllocationHandle = unsigned long long;
using CUcontext = Context*;
using CUevent = Event*;
using CUstream = Stream*;

enum CUresult : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kOutOfMemory = 2,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidDevice = 101,
  kInvalidContext = 201,
  kOperatingSystem = 304,
  kInvalidHandle = 400,
  kNotFound = 500,
  kNotReady = 600,
  kIllegalAddress = 700,
  kContextIsDestroyed = 709,
  kHostMemoryAlreadyRegistered = 712,
  kHostMemoryNotRegistered = 713,
  kLaunchFailed = 719,
  kNotSupported = 801,
  kUnknown = 999,
};

enum CUdeviceAttribute : int {
  kPciBusId = 33,
  kPciDeviceId = 34,
  kUnifiedAddressing = 41,
  kPciDomainId = 50,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kHostPointerForRegistered = 91,
  kHostRegisterSupported = 99,
  kVirtualMemorySupported = 102,
  kPosixHandleSupported = 103,
  kGpuDirectRdmaWithVirtualMemory = 110,
  kReadOnlyHostRegisterSupported = 113,
  kGpuDirectRdmaSupported = 116,
  kDmaBufSupported = 124,
};

enum CUpointerAttribute : int {
  kPointerContext = 1,
  kPointerMemoryType = 2,
  kPointerDevicePointer = 3,
  kPointerHostPointer = 4,
  kPointerBufferId = 7,
  kPointerIsManaged = 8,
  kPointerDeviceOrdinal = 9,
  kPointerIsLegacyIpcCapable = 10,
  kPointerRangeStart = 11,
  kPointerRangeSize = 12,
  kPointerMapped = 13,
  kPointerAllowedHandleTypes = 14,
  kPointerIsGpuDirectRdmaCapable = 15,
  kPointerAccessFlags = 16,
};

inline constexpr unsigned kMemoryTypeHost = 1;
inline constexpr unsigned kMemoryTypeDevice = 2;

inline constexpr int kAllocationTypePinned = 1;
inline constexpr int kHandleTypeNone = 0;
inline constexpr int kHandleTypePosixFileDescriptor = 1;
inline constexpr int kRangeHandleTypeDmaBuf = 1;
inline constexpr int kLocationTypeDevice = 1;
inline constexpr int kAccessNone = 0;
inline constexpr int kAccessRead = 1;
inline constexpr int kAccessReadWrite = 3;

inline constexpr unsigned kHostRegisterPortable = 1;
inline constexpr unsigned kHostRegisterDeviceMap = 2;
inline constexpr unsigned kHostRegisterIoMemory = 4;
inline constexpr unsigned kHostRegisterReadOnly = 8;

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
inline constexpr unsigned kEventInterprocess = 4;

struct CUuuid {
  char bytes[16];
};

struct CUmemLocation {
  int type;
  int id;
};

struct CUmemAllocationProp {
  int type;
  int handle_types;
  CUmemLocation location;
  void* windows_only;
  struct {
    unsigned char compression;
    unsigned char gpu_direct_rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

struct CUmemAccessDesc {
  CUmemLocation location;
  int flags;
};

static_assert(sizeof(CUmemAllocationProp) == 32);
static_assert(sizeof(CUmemAccessDesc) == 12);

extern "C" {

// Needs no cuInit().
CUDA_DOUBLE_API CUresult cuInit(unsigned flags);
CUDA_DOUBLE_API CUresult cuDriverGetVersion(int* version);
CUDA_DOUBLE_API CUresult cuGetErrorName(CUresult error, const char** name);
CUDA_DOUBLE_API CUresult cuGetErrorString(CUresult error, const char** text);

CUDA_DOUBLE_API CUresult cuDeviceGetCount(int* count);
CUDA_DOUBLE_API CUresult cuDeviceGet(CUdevice* device, int ordinal);
CUDA_DOUBLE_API CUresult cuDeviceGetName(char* name, int room, CUdevice device);
CUDA_DOUBLE_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device);
CUDA_DOUBLE_API CUresult cuDeviceGetPCIBusId(char* id, int room, CUdevice device);
CUDA_DOUBLE_API CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device);

CUDA_DOUBLE_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device);
CUDA_DOUBLE_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device);
CUDA_DOUBLE_API CUresult cuCtxPushCurrent_v2(CUcontext context);
CUDA_DOUBLE_API CUresult cuCtxPopCurrent_v2(CUcontext* context);
CUDA_DOUBLE_API CUresult cuCtxGetCurrent(CUcontext* context);
CUDA_DOUBLE_API CUresult cuCtxGetDevice(CUdevice* device);

CUDA_DOUBLE_API CUresult cuMemGetAllocationGranularity(std::size_t* granularity,
                                                       const CUmemAllocationProp* prop, int option);
CUDA_DOUBLE_API CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size,
                                     const CUmemAllocationProp* prop, unsigned long long flags);
CUDA_DOUBLE_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle);
CUDA_DOUBLE_API CUresult cuMemExportToShareableHandle(void* shareable,
                                                      CUmemGenericAllocationHandle handle, int type,
                                                      unsigned long long flags);
CUDA_DOUBLE_API CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle,
                                                        void* shareable, int type);
CUDA_DOUBLE_API CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t size,
                                             std::size_t alignment, CUdeviceptr wish,
                                             unsigned long long flags);
CUDA_DOUBLE_API CUresult cuMemAddressFree(CUdeviceptr address, std::size_t size);
CUDA_DOUBLE_API CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset,
                                  CUmemGenericAllocationHandle handle, unsigned long long flags);
CUDA_DOUBLE_API CUresult cuMemUnmap(CUdeviceptr address, std::size_t size);
CUDA_DOUBLE_API CUresult cuMemSetAccess(CUdeviceptr address, std::size_t size,
                                        const CUmemAccessDesc* descriptions, std::size_t count);

CUDA_DOUBLE_API CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t size);
CUDA_DOUBLE_API CUresult cuMemFree_v2(CUdeviceptr address);
CUDA_DOUBLE_API CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total);
CUDA_DOUBLE_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* size,
                                                 CUdeviceptr address);
CUDA_DOUBLE_API CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address,
                                                       std::size_t size, int type,
                                                       unsigned long long flags);
CUDA_DOUBLE_API CUresult cuMemHostRegister_v2(void* address, std::size_t size, unsigned flags);
CUDA_DOUBLE_API CUresult cuMemHostUnregister(void* address);
CUDA_DOUBLE_API CUresult cuPointerGetAttribute(void* value, int attribute, CUdeviceptr address);
CUDA_DOUBLE_API CUresult cuPointerGetAttributes(unsigned count, const int* attributes,
                                                void** values, CUdeviceptr address);

CUDA_DOUBLE_API CUresult cuStreamCreate(CUstream* stream, unsigned flags);
CUDA_DOUBLE_API CUresult cuStreamDestroy_v2(CUstream stream);
CUDA_DOUBLE_API CUresult cuCtxSynchronize();
CUDA_DOUBLE_API CUresult cuStreamQuery(CUstream stream);
CUDA_DOUBLE_API CUresult cuStreamSynchronize(CUstream stream);
CUDA_DOUBLE_API CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags);

CUDA_DOUBLE_API CUresult cuEventCreate(CUevent* event, unsigned flags);
CUDA_DOUBLE_API CUresult cuEventDestroy_v2(CUevent event);
CUDA_DOUBLE_API CUresult cuEventRecord(CUevent event, CUstream stream);
CUDA_DOUBLE_API CUresult cuEventQuery(CUevent event);
CUDA_DOUBLE_API CUresult cuEventSynchronize(CUevent event);

CUDA_DOUBLE_API CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, std::size_t size,
                                       CUstream stream);
CUDA_DOUBLE_API CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void* from, std::size_t size,
                                              CUstream stream);
CUDA_DOUBLE_API CUresult cuMemcpyDtoHAsync_v2(void* to, CUdeviceptr from, std::size_t size,
                                              CUstream stream);
CUDA_DOUBLE_API CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, std::size_t size,
                                              CUstream stream);
CUDA_DOUBLE_API CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value, std::size_t size,
                                         CUstream stream);

}  // extern "C"

}  // namespace farwrite::cuda_double
