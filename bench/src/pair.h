// Two devices of this process that are connected over shm, for benchmarks of calls.
#pragma once

#include <chrono>
#include <future>
#include <utility>

#include "farwrite/farwrite.h"

namespace farwrite::bench {

// Of every wait in a benchmark of calls.
inline constexpr std::chrono::seconds kTimeout{20};

// Stores what was made, or returns why it was not.
template <typename T>
Status put(T& place, Result<T> made) {
  if (!made.ok()) return made.status();
  place = *std::move(made);
  return Status();
}

// Opens both devices.
inline Status open_pair(Device& left, Device& right) {
  DeviceOptions options;
  options.fabrics = {FabricKind::kShm};
  FARWRITE_RETURN_IF_ERROR(put(left, Device::open(options)));
  return put(right, Device::open(options));
}

// Opens a channel from `left`, which gets `near`, to `right`, which gets `far`.
inline Status connect(Device& left, Device& right, Channel& near, Channel& far) {
  auto accepted = std::async(std::launch::async, [&right] { return right.accept(kTimeout); });
  FARWRITE_RETURN_IF_ERROR(put(near, left.connect(right.endpoint(), kTimeout)));
  return put(far, accepted.get());
}

}  // namespace farwrite::bench
