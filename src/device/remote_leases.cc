#include "device/remote_leases.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "core/mutex.h"

namespace farwrite::device {

bool RemoteLeases::hold() {
  const core::Lock lock(mutex_);
  if (ended_) return false;
  ++held_;
  return true;
}

bool RemoteLeases::drop(std::uint64_t lease) {
  const core::Lock lock(mutex_);
  --held_;
  dropped_.push_back(lease);
  return !std::exchange(telling_, true);
}

ReturnRecord RemoteLeases::take_dropped() {
  ReturnRecord record;
  const core::Lock lock(mutex_);
  const std::size_t count = std::min(dropped_.size(), ReturnRecord::kMaxLeases);
  record.leases.assign(dropped_.end() - static_cast<std::ptrdiff_t>(count), dropped_.end());
  dropped_.resize(dropped_.size() - count);
  if (count == 0) telling_ = false;
  return record;
}

bool RemoteLeases::end() {
  const core::Lock lock(mutex_);
  return held_ == 0 && !std::exchange(ended_, true);
}

void RemoteLeases::end_all() {
  const core::Lock lock(mutex_);
  ended_ = true;
}

std::uint64_t RemoteLeases::held() const {
  const core::Lock lock(mutex_);
  return held_;
}

}  // namespace farwrite::device
