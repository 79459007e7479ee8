#include "place.h"

#include <sys/mman.h>

#include <algorithm>

#include "double.h"

namespace farwrite::cuda_double {
namespace {

std::byte* as_bytes(CUdeviceptr address) { return reinterpret_cast<std::byte*>(address); }

CUresult find_on_device(DeviceMemory& memory, const Reservation& reservation, CUdeviceptr address,
                        std::size_t size, Span* span) {
  span->on_device = true;
  const std::size_t offset = address - reservation.base;
  if (offset > reservation.size || size > reservation.size - offset) return kInvalidValue;
  while (size > 0) {
    const std::shared_ptr<Mapping> mapping = memory.mapping_at(address);
    if (mapping == nullptr) return kInvalidValue;
    const std::size_t into = address - mapping->base;
    const std::size_t here = std::min(size, mapping->size - into);
    span->parts.push_back({mapping, mapping->allocation->bytes() + into, here});
    address += here;
    size -= here;
  }
  return kSuccess;
}

// msync() changes nothing here, but fails where nothing is mapped.
bool is_mapped(CUdeviceptr address, std::size_t size) {
  const CUdeviceptr begin = address & ~(page_size() - 1);
  return ::msync(as_bytes(begin), address + size - begin, MS_ASYNC) == 0;
}

}  // namespace

CUresult find_span(Double& all, CUdeviceptr address, std::size_t size, Span* span) {
  *span = {};
  if (address + size < address) return kInvalidValue;
  if (const Reservation* reservation = all.memory.reservation_at(address)) {
    return find_on_device(all.memory, *reservation, address, size, span);
  }
  if (all.memory.touches_reservation(address, size)) return kInvalidValue;
  const std::shared_ptr<Registration> pinned = all.registrations.touched_by(address, size);
  if (pinned != nullptr) {
    const std::size_t into = address - pinned->base;
    if (address < pinned->base || size > pinned->size - into) return kInvalidValue;
  } else if (!is_mapped(address, size)) {
    return kInvalidValue;
  }
  span->parts.push_back({pinned, as_bytes(address), size});
  return kSuccess;
}

}  // namespace farwrite::cuda_double
