#include "device_memory.h"

#include <sys/mman.h>

#include <iterator>
#include <limits>
#include <utility>

namespace farwrite::cuda_double {
namespace {

// Addresses that nothing can be read from or written to. 0 if there are none.
CUdeviceptr map_nothing(CUdeviceptr wish, std::size_t size, int flags) {
  void* at = ::mmap(reinterpret_cast<void*>(wish), size, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | flags, -1, 0);
  return at == MAP_FAILED ? 0 : reinterpret_cast<CUdeviceptr>(at);
}

void unmap(CUdeviceptr begin, std::size_t size) {
  if (size > 0) ::munmap(reinterpret_cast<void*>(begin), size);
}

}  // namespace

Reservation* DeviceMemory::reserve(std::size_t size, std::size_t alignment, CUdeviceptr wish) {
  if (size > std::numeric_limits<std::size_t>::max() / 4 - alignment) return nullptr;
  const std::size_t extent = round_up(size, page_size());
  CUdeviceptr base = 0;
  if (wish != 0 && wish % alignment == 0) base = map_nothing(wish, extent, MAP_FIXED_NOREPLACE);
  if (base == 0) {
    const CUdeviceptr begin = map_nothing(0, extent + alignment, 0);
    if (begin == 0) return nullptr;
    base = round_up(begin, alignment);
    unmap(begin, base - begin);
    unmap(base + extent, begin + alignment - base);
  }
  Reservation& made = reservations_[base];
  made.base = base;
  made.size = size;
  made.extent = extent;
  return &made;
}

void DeviceMemory::give_back(const Reservation& reservation) {
  unmap(reservation.base, reservation.extent);
  reservations_.erase(reservation.base);
}

Reservation* DeviceMemory::reservation_at(CUdeviceptr address) {
  const auto after = reservations_.upper_bound(address);
  if (after == reservations_.begin()) return nullptr;
  Reservation& before = std::prev(after)->second;
  return address - before.base < before.extent ? &before : nullptr;
}

bool DeviceMemory::touches_reservation(CUdeviceptr address, std::size_t size) {
  const auto next = reservations_.lower_bound(address);
  return reservation_at(address) != nullptr ||
         (next != reservations_.end() && next->first - address < size);
}

std::shared_ptr<Mapping> DeviceMemory::mapping_at(CUdeviceptr address) {
  Reservation* reservation = reservation_at(address);
  if (reservation == nullptr) return nullptr;
  const auto after = reservation->mappings.upper_bound(address);
  if (after == reservation->mappings.begin()) return nullptr;
  const std::shared_ptr<Mapping>& before = std::prev(after)->second;
  return address - before->base < before->size ? before : nullptr;
}

CUmemGenericAllocationHandle DeviceMemory::add_handle(std::shared_ptr<Allocation> allocation) {
  handles_.emplace(next_handle_, std::move(allocation));
  return next_handle_++;
}

std::shared_ptr<Allocation> DeviceMemory::allocation_of(CUmemGenericAllocationHandle handle) const {
  const auto at = handles_.find(handle);
  return at == handles_.end() ? nullptr : at->second;
}

std::size_t DeviceMemory::mappings() const {
  std::size_t all = 0;
  for (const auto& [base, reservation] : reservations_) all += reservation.mappings.size();
  return all;
}

}  // namespace farwrite::cuda_double
