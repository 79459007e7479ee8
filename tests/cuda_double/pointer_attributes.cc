// The attributes of an address. Only those that depend on a context need one.
#include "double.h"
#include "entry.h"

namespace farwrite::cuda_double {
namespace {

template <class T>
CUresult answer(void* value, T what) {
  *static_cast<T*>(value) = what;
  return kSuccess;
}

CUresult of_mapping(void* value, int attribute, CUdeviceptr address, const Mapping& mapping) {
  const Context* current = top_context();
  switch (attribute) {
    case kPointerContext:
      // Memory of cuMemCreate() belongs to no context.
      if (mapping.context == nullptr) return kInvalidValue;
      return answer<CUcontext>(value, mapping.context);
    case kPointerMemoryType:
      return answer(value, kMemoryTypeDevice);
    case kPointerDevicePointer:
      return current == nullptr ? kInvalidContext : answer(value, address);
    case kPointerBufferId:
      return answer(value, mapping.allocation->id());
    case kPointerIsManaged:
      return answer(value, 0U);
    case kPointerDeviceOrdinal:
      return answer(value, mapping.allocation->device());
    case kPointerIsLegacyIpcCapable:
      return answer(value, mapping.everywhere);
    case kPointerIsGpuDirectRdmaCapable:
      return answer(value, mapping.allocation->rdma());
    case kPointerAllowedHandleTypes:
      return answer<unsigned long long>(
          value, mapping.allocation->exportable() ? kHandleTypePosixFileDescriptor : 0);
    case kPointerAccessFlags: {
      if (current == nullptr) return kInvalidContext;
      const auto at = mapping.accesses.find(current->device);
      return answer<unsigned>(value, mapping.everywhere             ? kAccessReadWrite
                                     : at == mapping.accesses.end() ? kAccessNone
                                                                    : at->second);
    }
    default:
      return kInvalidValue;
  }
}

CUresult of_registration(void* value, int attribute, CUdeviceptr address,
                         const Registration& registration) {
  switch (attribute) {
    case kPointerContext:
      return answer<CUcontext>(value, registration.context);
    case kPointerMemoryType:
      return answer(value, kMemoryTypeHost);
    case kPointerDevicePointer:
      return top_context() == nullptr ? kInvalidContext : answer(value, address);
    case kPointerHostPointer:
      return answer(value, reinterpret_cast<void*>(address));
    case kPointerIsManaged:
      return answer(value, 0U);
    case kPointerDeviceOrdinal:
      return answer(value, registration.context->device);
    case kPointerRangeStart:
      return answer(value, registration.base);
    case kPointerRangeSize:
      return answer(value, registration.size);
    case kPointerMapped:
      return answer(value, true);
    default:
      return kInvalidValue;
  }
}

CUresult find(Double& all, void* value, int attribute, CUdeviceptr address) {
  if (value == nullptr) return kInvalidValue;
  if (const Reservation* reservation = all.memory.reservation_at(address)) {
    const auto mapping = all.memory.mapping_at(address);
    if (attribute == kPointerRangeStart) return answer(value, reservation->base);
    if (attribute == kPointerRangeSize) return answer(value, reservation->size);
    if (attribute == kPointerMapped) return answer(value, mapping != nullptr);
    return mapping == nullptr ? kInvalidValue : of_mapping(value, attribute, address, *mapping);
  }
  const auto registration = all.registrations.touched_by(address, 1);
  return registration == nullptr ? kInvalidValue
                                 : of_registration(value, attribute, address, *registration);
}

}  // namespace

CUresult cuPointerGetAttribute(void* value, int attribute, CUdeviceptr address) {
  return enter("cuPointerGetAttribute",
               [&](Double& all, Lock&) { return find(all, value, attribute, address); });
}

// Of memory that the driver never saw it tells type 0 and an ordinal that no GPU has, and succeeds.
CUresult cuPointerGetAttributes(unsigned count, const int* attributes, void** values,
                                CUdeviceptr address) {
  return enter("cuPointerGetAttributes", [&](Double& all, Lock&) {
    if (count == 0 || attributes == nullptr || values == nullptr) return kInvalidValue;
    for (unsigned i = 0; i < count; ++i) {
      // The two that Farwrite asks for.
      if (attributes[i] != kPointerMemoryType && attributes[i] != kPointerDeviceOrdinal) {
        return kInvalidValue;
      }
      if (find(all, values[i], attributes[i], address) == kSuccess) continue;
      constexpr int kNoDevice = -2;
      answer(values[i], attributes[i] == kPointerMemoryType ? 0 : kNoDevice);
    }
    return kSuccess;
  });
}

}  // namespace farwrite::cuda_double
