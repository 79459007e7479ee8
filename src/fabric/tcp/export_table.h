// ExportTable: the segments that attached peers may read, where they hold leases, by key.
#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "core/mutex.h"
#include "memory/segment.h"

namespace farwrite::fabric::tcp {

// Keys of landing memory have this bit, those of exported segments have not.
inline constexpr std::uint64_t kGrantBit = std::uint64_t{1} << 63;

// Keeps no segment alive: leases do. Thread-safe.
class ExportTable {
 public:
  // The key is the segment's id, which this process never uses again.
  std::uint64_t add(const std::shared_ptr<memory::Segment>& segment) {
    const core::WriterLock lock(mutex_);
    std::erase_if(segments_, [](const auto& entry) { return entry.second.expired(); });
    segments_.emplace(segment->id(), segment);
    return segment->id();
  }
  // Null if there is none, or its memory has gone.
  std::shared_ptr<memory::Segment> find(std::uint64_t key) const {
    const core::ReaderLock lock(mutex_);
    const auto found = segments_.find(key);
    return found == segments_.end() ? nullptr : found->second.lock();
  }

 private:
  mutable core::SharedMutex mutex_{core::LockRank::kTcp};
  std::map<std::uint64_t, std::weak_ptr<memory::Segment>> segments_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::fabric::tcp
