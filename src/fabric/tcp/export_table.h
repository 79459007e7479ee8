// ExportTable: the segments that attached peers may read, where they hold leases, by key.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <shared_mutex>

#include "core/ordered_mutex.h"
#include "memory/segment.h"

namespace farwrite::fabric::tcp {

// Keys of landing memory have this bit, those of exported segments have not.
inline constexpr std::uint64_t kGrantBit = std::uint64_t{1} << 63;

// Keeps no segment alive: leases do. Thread-safe.
class ExportTable {
 public:
  // The key is the segment's id, which this process never uses again.
  std::uint64_t add(const std::shared_ptr<memory::Segment>& segment) {
    const std::lock_guard lock(mutex_);
    std::erase_if(segments_, [](const auto& entry) { return entry.second.expired(); });
    segments_.emplace(segment->id(), segment);
    return segment->id();
  }
  // Null if there is none, or its memory has gone.
  std::shared_ptr<memory::Segment> find(std::uint64_t key) const {
    const std::shared_lock lock(mutex_);
    const auto found = segments_.find(key);
    return found == segments_.end() ? nullptr : found->second.lock();
  }

 private:
  mutable core::OrderedMutex<core::LockRank::kTcpExports, std::shared_mutex> mutex_;
  std::map<std::uint64_t, std::weak_ptr<memory::Segment>> segments_;
};

}  // namespace farwrite::fabric::tcp
