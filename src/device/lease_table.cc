#include "device/lease_table.h"

#include <string>
#include <utility>

namespace farwrite::device {
namespace {

// More than any program needs; bounds what a peer can make us remember.
constexpr std::size_t kMaxLeases = 1 << 20;

}  // namespace

Result<std::uint64_t> LeaseTable::grant(std::shared_ptr<RegionState> region,
                                        std::string_view peer) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (closed_) {
    return Status::error(StatusCode::kPeerDead, {"lease a region", peer}, "the peer is gone",
                         "restart it and connect again");
  }
  if (held_.size() >= kMaxLeases || !quota_.try_charge(region->bytes())) {
    return Status::error(StatusCode::kResourceExhausted, {"lease a region", peer},
                         "the peer holds " + std::to_string(quota_.in_use()) + " of " +
                             std::to_string(quota_.limit()) + " bytes in " +
                             std::to_string(held_.size()) + " leases and asked for " +
                             std::to_string(region->bytes()) + " more",
                         "let it drop regions and aliases, or raise send_limit_per_peer");
  }
  const std::uint64_t lease = ++granted_;
  held_.emplace(lease, std::move(region));
  return lease;
}

void LeaseTable::release(std::uint64_t lease) {
  std::shared_ptr<RegionState> region;  // its end may take a while: after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = held_.find(lease);
  if (found == held_.end()) return;
  region = std::move(found->second);
  held_.erase(found);
  ++released_;
  quota_.release(region->bytes());
}

void LeaseTable::release_all() {
  std::unordered_map<std::uint64_t, std::shared_ptr<RegionState>> ended;
  const std::lock_guard<std::mutex> lock(mutex_);
  ended.swap(held_);
  released_ += ended.size();
  for (const auto& [lease, region] : ended) quota_.release(region->bytes());
}

void LeaseTable::close() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    closed_ = true;
  }
  release_all();
}

std::uint64_t LeaseTable::granted() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return granted_;
}

std::uint64_t LeaseTable::released() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return released_;
}

std::uint64_t LeaseTable::held() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return held_.size();
}

}  // namespace farwrite::device
