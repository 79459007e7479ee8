// DeviceMemory: a process's view of the memory of all GPUs: handles, reserved addresses, mappings.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "allocation.h"
#include "driver_api.h"
#include "place.h"

namespace farwrite::cuda_double {

// Addresses that cuMemAddressReserve() or cuMemAlloc() gave out. The CPU can never touch them.
struct Reservation {
  CUdeviceptr base = 0;
  std::size_t size = 0;    // what the caller asked for
  std::size_t extent = 0;  // the pages of it
  bool linear = false;     // of cuMemAlloc()
  std::map<CUdeviceptr, std::shared_ptr<Mapping>> mappings;
};

// Under Double::lock.
class DeviceMemory {
 public:
  // At an address that is a multiple of `alignment`, a power of two: `wish` if that is free, or
  // any. Null if there are none.
  Reservation* reserve(std::size_t size, std::size_t alignment, CUdeviceptr wish = 0);
  // Its mappings must be gone.
  void give_back(const Reservation& reservation);
  // The reservation whose pages have this address, or null.
  Reservation* reservation_at(CUdeviceptr address);
  // Whether any of these addresses is reserved.
  bool touches_reservation(CUdeviceptr address, std::size_t size);
  // The mapping with this address, or null.
  std::shared_ptr<Mapping> mapping_at(CUdeviceptr address);

  CUmemGenericAllocationHandle add_handle(std::shared_ptr<Allocation> allocation);
  std::shared_ptr<Allocation> allocation_of(CUmemGenericAllocationHandle handle) const;
  bool remove_handle(CUmemGenericAllocationHandle handle) { return handles_.erase(handle) == 1; }

  std::size_t reservations() const { return reservations_.size(); }
  std::size_t mappings() const;
  Ledger& ledger() { return ledger_; }

 private:
  Ledger ledger_;
  std::map<CUdeviceptr, Reservation> reservations_;
  std::map<CUmemGenericAllocationHandle, std::shared_ptr<Allocation>> handles_;
  CUmemGenericAllocationHandle next_handle_ = 0x5a0001;
};

}  // namespace farwrite::cuda_double
