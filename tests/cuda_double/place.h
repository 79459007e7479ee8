// Place: memory that the GPU may reach until it is unmapped or unregistered. Span: the places that
// a range of addresses is in.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <vector>

#include "allocation.h"
#include "driver_api.h"

namespace farwrite::cuda_double {

// Under Double::lock.
struct Place {
  virtual ~Place() = default;
  virtual bool allows(int device, int access) const = 0;

  bool alive = true;  // false once the caller has taken it away
};

// Addresses of the GPU with physical memory behind them.
struct Mapping final : Place {
  bool allows(int device, int access) const override {
    if (everywhere) return true;
    const auto at = accesses.find(device);
    return at != accesses.end() && (at->second & access) == access;
  }

  CUdeviceptr base = 0;
  std::size_t size = 0;
  std::shared_ptr<Allocation> allocation;
  std::map<int, int> accesses;  // of each GPU that has any
  bool everywhere = false;      // of cuMemAlloc(), which every GPU copies from and to
  Context* context = nullptr;   // of cuMemAlloc()
};

// Host memory that is pinned.
struct Registration final : Place {
  bool allows(int, int access) const override {
    return access != kAccessReadWrite || (flags & kHostRegisterReadOnly) == 0;
  }

  CUdeviceptr base = 0;
  std::size_t size = 0;
  unsigned flags = 0;
  Context* context = nullptr;
};

struct Part {
  std::shared_ptr<Place> place;  // null: host memory that is not pinned
  std::byte* bytes = nullptr;
  std::size_t size = 0;
};

struct Span {
  std::vector<Part> parts;
  bool on_device = false;
};

struct Double;

// What is at these addresses. kInvalidValue unless all of it is one of: device memory that is
// mapped without a gap, one host registration, or mapped host memory that touches no registration.
// `size` is not 0.
CUresult find_span(Double& all, CUdeviceptr address, std::size_t size, Span* span);

}  // namespace farwrite::cuda_double
