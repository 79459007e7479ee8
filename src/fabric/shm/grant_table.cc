#include "fabric/shm/grant_table.h"

#include <string>

#include "core/mutex.h"
#include "core/poll_until.h"

namespace farwrite::fabric::shm {
Result<std::uint64_t> GrantTable::grant(const std::shared_ptr<memory::Segment>& segment,
                                        ByteView region, std::uint64_t region_id,
                                        std::string_view peer) {
  const core::Lock lock(mutex_);
  std::uint32_t row = 0;
  if (!free_rows_.empty()) {
    row = free_rows_.back();
    free_rows_.pop_back();
  } else if (next_unused_row_ < mailbox_.geometry().rows) {
    row = next_unused_row_++;
  } else {
    return Status::error(StatusCode::kResourceExhausted, {"allocate", peer, "shm"},
                         "all " + std::to_string(mailbox_.geometry().rows) +
                             " pieces of memory that the peer may write are in use",
                         "close some, or use fewer and larger ones");
  }
  const std::uint64_t key = GrantKey{segment->id(), row}.pack();
  live_.emplace(key, region_id);
  Granted& granted = segments_[segment->id()];
  granted.segment = segment;
  ++granted.regions;
  if (ranges_ != nullptr) {
    ranges_[row].base.store(region.data, std::memory_order_relaxed);
    ranges_[row].bytes.store(region.size, std::memory_order_relaxed);
  }
  mailbox_.row(row).open_region.store(region_id);
  return key;
}

ByteView GrantTable::hinted(const LandingHint& landing) const {
  if (ranges_ == nullptr || landing.row >= mailbox_.geometry().rows) return {};
  const RegionRange& range = ranges_[landing.row];
  const std::uint64_t bytes = range.bytes.load(std::memory_order_relaxed);
  if (landing.offset > bytes || landing.bytes > bytes - landing.offset) return {};
  return {range.base.load(std::memory_order_relaxed) + landing.offset, landing.bytes};
}

bool GrantTable::is_live_locked(std::uint64_t key, std::uint64_t region_id) const {
  const auto found = live_.find(key);
  return found != live_.end() && found->second == region_id;
}

Status GrantTable::revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline,
                          std::string_view peer) {
  {
    const core::Lock lock(mutex_);
    if (!is_live_locked(key, region_id)) return Status();
    mailbox_.row(GrantKey::unpack(key).row).open_region.store(0);
  }
  const GrantRow& row = mailbox_.row(GrantKey::unpack(key).row);
  const auto settled = [&] {
    if (row.inflight.load() == 0 || peer_dead_.load()) return true;
    const core::Lock lock(mutex_);
    return !is_live_locked(key, region_id);  // another thread has seen it settle
  };
  if (!core::poll_until(settled, deadline)) {
    return Status::error(StatusCode::kPeerSilent, {"close memory", peer, "shm"},
                         "the peer is in the middle of a write and does not finish it",
                         "the memory stays quarantined until the write or the peer's process ends");
  }
  const core::Lock lock(mutex_);
  if (is_live_locked(key, region_id)) {
    live_.erase(key);
    free_rows_.push_back(GrantKey::unpack(key).row);
    const auto granted = segments_.find(GrantKey::unpack(key).segment_id);
    // Memory of the host stays with the channel; a GPU's is free once its one region has gone.
    const bool last = --granted->second.regions == 0;
    if (last && granted->second.segment->gpu() != nullptr) segments_.erase(granted);
  }
  return Status();
}

std::shared_ptr<memory::Segment> GrantTable::find_segment(std::uint32_t segment_id) const {
  const core::Lock lock(mutex_);
  const auto found = segments_.find(segment_id);
  return found == segments_.end() ? nullptr : found->second.segment;
}

}  // namespace farwrite::fabric::shm
