// The part of the CUDA driver's interface that Farwrite uses, declared here: the build needs no
// CUDA. Names and numbers are those of NVIDIA's driver API, version 12 and newer.
#pragma once

#include <cstddef>
#include <cstdint>

namespace farwrite::gpu::cuda {

using Result = int;
using Device = int;
using DevicePointer = unsigned long long;
using AllocationHandle = unsigned long long;
using Context = struct ContextTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;

constexpr Result kSuccess = 0;
constexpr Result kOutOfMemory = 2;
constexpr Result kDeinitialized = 4;
constexpr Result kNotReady = 600;

struct Uuid {
  std::uint8_t bytes[16];
};

struct Location {
  int type;
  int id;
};

struct AllocationProperties {
  int type;
  int handle_types;
  Location location;
  void* windows_only;
  struct {
    unsigned char compression;
    unsigned char rdma_capable;
    unsigned short usage;
    unsigned char reserved[4];
  } flags;
};

struct AccessDescription {
  Location location;
  int flags;
};

// CU_MEM_...
constexpr int kPinnedAllocation = 1;
constexpr int kPosixFileDescriptor = 1;
constexpr int kOnDevice = 1;
constexpr int kReadOnly = 1;
constexpr int kReadWrite = 3;
constexpr int kMinimumGranularity = 0;
constexpr int kDmaBuf = 1;

constexpr unsigned kRegisterPortable = 1;
constexpr unsigned kRegisterReadOnly = 8;
constexpr unsigned kNonBlockingStream = 1;
constexpr unsigned kBlockingEvent = 1;
constexpr unsigned kUntimedEvent = 2;

// CU_POINTER_ATTRIBUTE_... and CU_MEMORYTYPE_...
constexpr int kMemoryType = 2;
constexpr int kDeviceOrdinal = 9;
constexpr unsigned kDeviceMemory = 2;

// CU_DEVICE_ATTRIBUTE_...
constexpr int kHasVirtualMemory = 102;
constexpr int kExportsFileDescriptors = 103;
constexpr int kRdmaWithVirtualMemory = 110;
constexpr int kExportsDmaBuf = 124;

}  // namespace farwrite::gpu::cuda
