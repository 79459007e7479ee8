// cuMemAlloc(), and queries of device memory.
#include <utility>

#include "double.h"
#include "entry.h"

namespace farwrite::cuda_double {

CUresult cuMemAlloc_v2(CUdeviceptr* address, std::size_t size) {
  return enter_context("cuMemAlloc_v2", [&](Double& all, Context& current, Lock&) {
    if (address == nullptr || size == 0) return kInvalidValue;
    const std::size_t used = all.memory.ledger().used[static_cast<std::size_t>(current.device)];
    if (size > all.options.bytes) return kOutOfMemory;
    const std::size_t pages = round_up(size, page_size());
    if (pages > all.options.bytes || used > all.options.bytes - pages) return kOutOfMemory;
    auto mapping = std::make_shared<Mapping>();
    mapping->allocation = Allocation::create(
        all.memory.ledger(),
        {.device = current.device, .size = pages, .exportable = false, .rdma = true});
    if (mapping->allocation == nullptr) return kOutOfMemory;
    Reservation* made = all.memory.reserve(size, page_size());
    if (made == nullptr) return kOutOfMemory;
    made->linear = true;
    mapping->base = made->base;
    mapping->size = size;
    mapping->everywhere = true;
    mapping->context = &current;
    made->mappings.emplace(made->base, std::move(mapping));
    *address = made->base;
    return kSuccess;
  });
}

// Waits for all work of the GPU, as the driver does.
CUresult cuMemFree_v2(CUdeviceptr address) {
  return enter_release("cuMemFree_v2", [&](Double& all, Context& current, Lock& lock) {
    if (address == 0) return kSuccess;
    all.engine.wait_for(lock, current);
    const Reservation* reservation = all.memory.reservation_at(address);
    if (reservation == nullptr || !reservation->linear || reservation->base != address) {
      return kInvalidValue;
    }
    const std::shared_ptr<Mapping> mapping = reservation->mappings.begin()->second;
    if (mapping->context != &current) all.engine.wait_for(lock, *mapping->context);
    mapping->alive = false;
    Reservation* still = all.memory.reservation_at(address);
    if (still == nullptr || still->mappings.empty() || still->mappings.begin()->second != mapping) {
      return kInvalidValue;  // another thread was faster
    }
    still->mappings.clear();
    all.memory.give_back(*still);
    return kSuccess;
  });
}

CUresult cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  return enter_context("cuMemGetInfo_v2", [&](Double& all, Context& current, Lock&) {
    if (free == nullptr || total == nullptr) return kInvalidValue;
    *total = all.options.bytes;
    *free = all.options.bytes - all.memory.ledger().used[static_cast<std::size_t>(current.device)];
    return kSuccess;
  });
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* base, std::size_t* size, CUdeviceptr address) {
  return enter_context("cuMemGetAddressRange_v2", [&](Double& all, Context&, Lock&) {
    const auto mapping = all.memory.mapping_at(address);
    if (mapping == nullptr) return kNotFound;
    if (base != nullptr) *base = mapping->base;
    if (size != nullptr) *size = mapping->size;
    return kSuccess;
  });
}

// The descriptor is that of the memory, and its offset 0 is the range's first byte, as a dma-buf's
// would be. So the double refuses a range that does not begin where the memory does. It
// also refuses memory of cuMemCreate() that was not asked to be capable of GPUDirect RDMA.
CUresult cuMemGetHandleForAddressRange(void* handle, CUdeviceptr address, std::size_t size,
                                       int type, unsigned long long flags) {
  return enter_context("cuMemGetHandleForAddressRange", [&](Double& all, Context&, Lock&) {
    if (handle == nullptr || size == 0 || address % page_size() != 0 || size % page_size() != 0 ||
        type != kRangeHandleTypeDmaBuf || flags > 1) {
      return kInvalidValue;
    }
    if (!all.options.supports(kDmaBufSupported)) return kNotSupported;
    const auto mapping = all.memory.mapping_at(address);
    if (mapping == nullptr || size > round_up(mapping->size, page_size())) return kInvalidValue;
    if (mapping->base != address || !mapping->allocation->rdma()) return kNotSupported;
    const int descriptor = mapping->allocation->duplicate();
    if (descriptor < 0) return kOperatingSystem;
    *static_cast<int*>(handle) = descriptor;
    return kSuccess;
  });
}

}  // namespace farwrite::cuda_double
