#include "host_registrations.h"

#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <utility>

#include "double.h"
#include "entry.h"

namespace farwrite::cuda_double {
namespace {

constexpr unsigned kKnownFlags =
    kHostRegisterPortable | kHostRegisterDeviceMap | kHostRegisterIoMemory | kHostRegisterReadOnly;

struct Protection {
  bool mapped = false;  // all of it
  bool writable = false;
};

Protection protection_of(CUdeviceptr address, std::size_t size) {
  std::ifstream maps("/proc/self/maps");
  const CUdeviceptr end = address + size;
  CUdeviceptr at = address;
  bool writable = true;
  for (std::string line; at < end && std::getline(maps, line);) {
    std::istringstream fields(line);
    CUdeviceptr from = 0;
    CUdeviceptr to = 0;
    char dash = 0;
    std::string rights;
    fields >> std::hex >> from >> dash >> to >> rights;
    if (to <= at) continue;
    if (from > at || rights.size() < 2 || rights[0] != 'r') break;
    writable = writable && rights[1] == 'w';
    at = to;
  }
  return {at >= end, writable};
}

}  // namespace

bool HostRegistrations::add(std::shared_ptr<Registration> registration) {
  const CUdeviceptr begin = registration->base & ~(page_size() - 1);
  const CUdeviceptr end = round_up(registration->base + registration->size, page_size());
  if (touched_by(begin, end - begin) != nullptr) return false;
  const CUdeviceptr base = registration->base;
  registrations_.emplace(base, std::move(registration));
  return true;
}

std::shared_ptr<Registration> HostRegistrations::remove(CUdeviceptr base) {
  const auto at = registrations_.find(base);
  if (at == registrations_.end()) return nullptr;
  std::shared_ptr<Registration> gone = std::move(at->second);
  registrations_.erase(at);
  return gone;
}

std::shared_ptr<Registration> HostRegistrations::touched_by(CUdeviceptr address,
                                                            std::size_t size) const {
  const auto after = registrations_.upper_bound(address);
  if (after != registrations_.begin()) {
    const std::shared_ptr<Registration>& before = std::prev(after)->second;
    if (address - before->base < before->size) return before;
  }
  return after != registrations_.end() && after->first - address < size ? after->second : nullptr;
}

CUresult cuMemHostRegister_v2(void* address, std::size_t size, unsigned flags) {
  return enter_context("cuMemHostRegister_v2", [&](Double& all, Context& current, Lock&) {
    const auto base = reinterpret_cast<CUdeviceptr>(address);
    if (address == nullptr || size == 0 || base + size < base || (flags & ~kKnownFlags) != 0) {
      return kInvalidValue;
    }
    if ((flags & kHostRegisterIoMemory) != 0) return kNotSupported;
    if (!all.options.supports(kHostRegisterSupported)) return kNotSupported;
    const bool read_only = (flags & kHostRegisterReadOnly) != 0;
    if (read_only && !all.options.supports(kReadOnlyHostRegisterSupported)) return kNotSupported;
    const Protection protection = protection_of(base, size);
    if (!protection.mapped || (!protection.writable && !read_only)) return kInvalidValue;
    auto registration = std::make_shared<Registration>();
    registration->base = base;
    registration->size = size;
    registration->flags = flags;
    registration->context = &current;
    return all.registrations.add(std::move(registration)) ? kSuccess : kHostMemoryAlreadyRegistered;
  });
}

// With work pending on the memory, that work fails: whether the driver waits is not documented.
CUresult cuMemHostUnregister(void* address) {
  return enter_release("cuMemHostUnregister", [&](Double& all, Context&, Lock&) {
    const auto gone = all.registrations.remove(reinterpret_cast<CUdeviceptr>(address));
    if (gone == nullptr) return kHostMemoryNotRegistered;
    gone->alive = false;
    return kSuccess;
  });
}

}  // namespace farwrite::cuda_double
