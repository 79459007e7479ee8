// cuInit() and the functions of devices. Each process sees the same GPUs.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "double.h"
#include "entry.h"

namespace farwrite::cuda_double {
namespace {

// Of GPU 0: 0000:01:00.0, and so on.
constexpr int bus_of(CUdevice device) { return device + 1; }

}  // namespace

CUresult cuInit(unsigned flags) {
  return enter_early("cuInit", [&](Double& all, Lock&) {
    if (flags != 0) return kInvalidValue;
    if (!all.options_good) return kUnknown;
    if (all.options.gpus == 0) return kNoDevice;
    all.initialized = true;
    own_gpus();
    return kSuccess;
  });
}

CUresult cuDriverGetVersion(int* version) {
  return enter_early("cuDriverGetVersion", [&](Double& all, Lock&) {
    if (version == nullptr) return kInvalidValue;
    *version = all.options.version;
    return kSuccess;
  });
}

CUresult cuDeviceGetCount(int* count) {
  return enter("cuDeviceGetCount", [&](Double& all, Lock&) {
    if (count == nullptr) return kInvalidValue;
    *count = all.options.gpus;
    return kSuccess;
  });
}

CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  return enter("cuDeviceGet", [&](Double& all, Lock&) {
    if (device == nullptr) return kInvalidValue;
    if (all.context_of(ordinal) == nullptr) return kInvalidDevice;
    *device = ordinal;
    return kSuccess;
  });
}

CUresult cuDeviceGetName(char* name, int room, CUdevice device) {
  return enter("cuDeviceGetName", [&](Double& all, Lock&) {
    if (name == nullptr || room <= 0) return kInvalidValue;
    if (all.context_of(device) == nullptr) return kInvalidDevice;
    std::snprintf(name, static_cast<std::size_t>(room), "%s", "CUDA double");
    return kSuccess;
  });
}

CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  return enter("cuDeviceGetUuid_v2", [&](Double& all, Lock&) {
    if (uuid == nullptr) return kInvalidValue;
    if (all.context_of(device) == nullptr) return kInvalidDevice;
    constexpr CUuuid kFirst = {"cuda double gpu"};
    *uuid = kFirst;
    uuid->bytes[15] = static_cast<char>(device);
    return kSuccess;
  });
}

CUresult cuDeviceGetPCIBusId(char* id, int room, CUdevice device) {
  return enter("cuDeviceGetPCIBusId", [&](Double& all, Lock&) {
    constexpr int kRoom = sizeof("0000:00:00.0");
    if (id == nullptr || room < kRoom) return kInvalidValue;
    if (all.context_of(device) == nullptr) return kInvalidDevice;
    std::snprintf(id, static_cast<std::size_t>(room), "0000:%02X:00.0",
                  static_cast<unsigned>(bus_of(device)));
    return kSuccess;
  });
}

// Of the attributes, the double has those that Farwrite might ask for. It refuses all others.
CUresult cuDeviceGetAttribute(int* value, int attribute, CUdevice device) {
  return enter("cuDeviceGetAttribute", [&](Double& all, Lock&) {
    if (value == nullptr) return kInvalidValue;
    if (all.context_of(device) == nullptr) return kInvalidDevice;
    const auto at = all.options.attributes.find(attribute);
    if (at != all.options.attributes.end()) {
      *value = at->second;
    } else if (attribute == kPciBusId) {
      *value = bus_of(device);
    } else if (attribute == kPciDeviceId || attribute == kPciDomainId) {
      *value = 0;
    } else {
      return kInvalidValue;
    }
    return kSuccess;
  });
}

}  // namespace farwrite::cuda_double
