// The virtual memory functions: physical memory, its handles, addresses, and what connects them.
// None of them needs a context, or answers an error that sticks to one.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "double.h"
#include "entry.h"

namespace farwrite::cuda_double {
namespace {

bool aligned(unsigned long long number) { return number % kGranularity == 0; }

CUresult check(const Double& all, const CUmemAllocationProp* prop) {
  if (!all.options.supports(kVirtualMemorySupported)) return kNotSupported;
  if (prop == nullptr || prop->type != kAllocationTypePinned ||
      prop->location.type != kLocationTypeDevice) {
    return kInvalidValue;
  }
  if (prop->location.id < 0 || prop->location.id >= all.options.gpus) return kInvalidDevice;
  if ((prop->handle_types & ~kHandleTypePosixFileDescriptor) != 0) return kNotSupported;
  if (prop->flags.gpu_direct_rdma_capable != 0 &&
      !all.options.supports(kGpuDirectRdmaWithVirtualMemory)) {
    return kNotSupported;
  }
  if (prop->handle_types != kHandleTypeNone && !all.options.supports(kPosixHandleSupported)) {
    return kNotSupported;
  }
  return kSuccess;
}

// The mappings that a range consists of. None if it does not begin and end with one, or has a gap.
std::vector<std::shared_ptr<Mapping>> whole_mappings(DeviceMemory& memory, CUdeviceptr address,
                                                     std::size_t size) {
  std::vector<std::shared_ptr<Mapping>> found;
  const Reservation* reservation = memory.reservation_at(address);
  if (reservation == nullptr || reservation->linear) return found;
  while (size > 0) {
    const auto at = reservation->mappings.find(address);
    if (at == reservation->mappings.end() || at->second->size > size) return {};
    found.push_back(at->second);
    address += at->second->size;
    size -= at->second->size;
  }
  return found;
}

bool overlaps_mapping(const Reservation& reservation, CUdeviceptr address, std::size_t size) {
  for (const auto& [base, mapping] : reservation.mappings) {
    if (base < address + size && address < base + mapping->size) return true;
  }
  return false;
}

}  // namespace

CUresult cuMemGetAllocationGranularity(std::size_t* granularity, const CUmemAllocationProp* prop,
                                       int option) {
  return enter("cuMemGetAllocationGranularity", [&](Double& all, Lock&) {
    if (granularity == nullptr || option < 0 || option > 1) return kInvalidValue;
    const CUresult good = check(all, prop);
    if (good == kSuccess) *granularity = kGranularity;
    return good;
  });
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, std::size_t size,
                     const CUmemAllocationProp* prop, unsigned long long flags) {
  return enter("cuMemCreate", [&](Double& all, Lock&) {
    if (handle == nullptr || size == 0 || !aligned(size) || flags != 0) return kInvalidValue;
    const CUresult good = check(all, prop);
    if (good != kSuccess) return good;
    const int device = prop->location.id;
    const std::size_t used = all.memory.ledger().used[static_cast<std::size_t>(device)];
    if (size > all.options.bytes || used > all.options.bytes - size) return kOutOfMemory;
    auto made = Allocation::create(all.memory.ledger(),
                                   {.device = device,
                                    .size = size,
                                    .exportable = prop->handle_types != kHandleTypeNone,
                                    .rdma = prop->flags.gpu_direct_rdma_capable != 0});
    if (made == nullptr) return kOutOfMemory;
    *handle = all.memory.add_handle(std::move(made));
    return kSuccess;
  });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return enter("cuMemRelease", [&](Double& all, Lock&) {
    return all.memory.remove_handle(handle) ? kSuccess : kInvalidValue;
  });
}

CUresult cuMemExportToShareableHandle(void* shareable, CUmemGenericAllocationHandle handle,
                                      int type, unsigned long long flags) {
  return enter("cuMemExportToShareableHandle", [&](Double& all, Lock&) {
    const auto allocation = all.memory.allocation_of(handle);
    if (shareable == nullptr || allocation == nullptr || !allocation->exportable() ||
        type != kHandleTypePosixFileDescriptor || flags != 0) {
      return kInvalidValue;
    }
    const int descriptor = allocation->duplicate();
    if (descriptor < 0) return kOperatingSystem;
    *static_cast<int*>(shareable) = descriptor;
    return kSuccess;
  });
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* shareable,
                                        int type) {
  return enter("cuMemImportFromShareableHandle", [&](Double& all, Lock&) {
    if (handle == nullptr || type != kHandleTypePosixFileDescriptor) return kInvalidValue;
    if (!all.options.supports(kPosixHandleSupported)) return kNotSupported;
    const auto descriptor = static_cast<int>(reinterpret_cast<std::intptr_t>(shareable));
    auto made = Allocation::import(all.memory.ledger(), descriptor);
    if (made == nullptr) return kInvalidValue;
    if (made->device() >= all.options.gpus) return kNotSupported;
    *handle = all.memory.add_handle(std::move(made));
    return kSuccess;
  });
}

CUresult cuMemAddressReserve(CUdeviceptr* address, std::size_t size, std::size_t alignment,
                             CUdeviceptr wish, unsigned long long flags) {
  return enter("cuMemAddressReserve", [&](Double& all, Lock&) {
    if (address == nullptr || size == 0 || size % page_size() != 0 || flags != 0 ||
        (alignment & (alignment - 1)) != 0) {
      return kInvalidValue;
    }
    if (!all.options.supports(kVirtualMemorySupported)) return kNotSupported;
    const Reservation* made = all.memory.reserve(size, std::max(alignment, kGranularity), wish);
    if (made == nullptr) return kOutOfMemory;
    *address = made->base;
    return kSuccess;
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, std::size_t size) {
  return enter("cuMemAddressFree", [&](Double& all, Lock&) {
    const Reservation* reservation = all.memory.reservation_at(address);
    if (reservation == nullptr || reservation->base != address || reservation->size != size ||
        reservation->linear || !reservation->mappings.empty()) {
      return kInvalidValue;
    }
    all.memory.give_back(*reservation);
    return kSuccess;
  });
}

CUresult cuMemMap(CUdeviceptr address, std::size_t size, std::size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  return enter("cuMemMap", [&](Double& all, Lock&) {
    Reservation* reservation = all.memory.reservation_at(address);
    const auto allocation = all.memory.allocation_of(handle);
    // The driver's manual says that the offset must be 0 for now.
    if (reservation == nullptr || reservation->linear || allocation == nullptr || size == 0 ||
        offset != 0 || flags != 0 || !aligned(address) || !aligned(size) ||
        size > allocation->size() || size > reservation->base + reservation->size - address ||
        overlaps_mapping(*reservation, address, size)) {
      return kInvalidValue;
    }
    auto mapping = std::make_shared<Mapping>();
    mapping->base = address;
    mapping->size = size;
    mapping->allocation = allocation;
    reservation->mappings.emplace(address, std::move(mapping));
    return kSuccess;
  });
}

// Work that is pending on the memory fails, and its context with it.
CUresult cuMemUnmap(CUdeviceptr address, std::size_t size) {
  return enter("cuMemUnmap", [&](Double& all, Lock&) {
    const auto mappings = whole_mappings(all.memory, address, size);
    if (mappings.empty()) return kInvalidValue;
    Reservation* reservation = all.memory.reservation_at(address);
    for (const auto& mapping : mappings) {
      mapping->alive = false;
      reservation->mappings.erase(mapping->base);
    }
    return kSuccess;
  });
}

CUresult cuMemSetAccess(CUdeviceptr address, std::size_t size, const CUmemAccessDesc* descriptions,
                        std::size_t count) {
  return enter("cuMemSetAccess", [&](Double& all, Lock&) {
    if (descriptions == nullptr || count == 0) return kInvalidValue;
    for (std::size_t i = 0; i < count; ++i) {
      const CUmemAccessDesc& one = descriptions[i];
      if (one.location.type != kLocationTypeDevice ||
          (one.flags != kAccessNone && one.flags != kAccessRead && one.flags != kAccessReadWrite)) {
        return kInvalidValue;
      }
      if (all.context_of(one.location.id) == nullptr) return kInvalidDevice;
    }
    const auto mappings = whole_mappings(all.memory, address, size);
    if (mappings.empty()) return kInvalidValue;
    for (const auto& mapping : mappings) {
      for (std::size_t i = 0; i < count; ++i) {
        mapping->accesses[descriptions[i].location.id] = descriptions[i].flags;
      }
    }
    return kSuccess;
  });
}

}  // namespace farwrite::cuda_double
