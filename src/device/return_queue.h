// ReturnQueue: leases of the peer that this side has dropped, and that it has to hear of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "device/channel_records.h"

namespace farwrite::device {

// One thread at a time tells the peer; what others drop meanwhile goes with the next record, so a
// burst costs few records and a full ring holds one of them back and no more. Thread-safe.
class ReturnQueue {
 public:
  // True if the caller must take() until nothing is left.
  bool add(std::uint64_t lease) {
    const std::lock_guard<std::mutex> lock(mutex_);
    leases_.push_back(lease);
    return !std::exchange(telling_, true);
  }

  // The next record's leases; none ends the caller's turn.
  ReturnRecord take() {
    ReturnRecord record;
    const std::lock_guard<std::mutex> lock(mutex_);
    const std::size_t count = std::min(leases_.size(), ReturnRecord::kMaxLeases);
    record.leases.assign(leases_.end() - static_cast<std::ptrdiff_t>(count), leases_.end());
    leases_.resize(leases_.size() - count);
    if (count == 0) telling_ = false;
    return record;
  }

 private:
  std::mutex mutex_;
  std::vector<std::uint64_t> leases_;
  bool telling_ = false;
};

}  // namespace farwrite::device
