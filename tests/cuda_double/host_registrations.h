// HostRegistrations: the host memory that is pinned for DMA.
#pragma once

#include <cstddef>
#include <map>
#include <memory>

#include "driver_api.h"
#include "place.h"

namespace farwrite::cuda_double {

// Under Double::lock.
class HostRegistrations {
 public:
  // False if it shares a page with another.
  bool add(std::shared_ptr<Registration> registration);
  // By its first address. Null if there is none.
  std::shared_ptr<Registration> remove(CUdeviceptr base);
  // The first one with any of these addresses, or null.
  std::shared_ptr<Registration> touched_by(CUdeviceptr address, std::size_t size) const;
  std::size_t size() const { return registrations_.size(); }

 private:
  std::map<CUdeviceptr, std::shared_ptr<Registration>> registrations_;
};

}  // namespace farwrite::cuda_double
