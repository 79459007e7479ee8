#include "device/lease_table.h"

#include <limits>
#include <string>
#include <utility>

#include "core/mutex.h"

namespace farwrite::device {
namespace {

// More than any program needs; bounds what a peer can make us remember.
constexpr std::size_t kMaxLeases = 1 << 20;

}  // namespace

Result<std::uint64_t> LeaseTable::grant(std::shared_ptr<RegionState> region,
                                        const LeasedRange& range, std::string_view peer) {
  return add({range, std::move(region), nullptr}, peer);
}

Result<std::uint64_t> LeaseTable::lend(const LeasedRange& range, std::function<void()> returned,
                                       std::string_view peer) {
  return add({range, nullptr, std::move(returned)}, peer);
}

// `lease` is taken by value, so that what it owns goes after the lock if it is refused.
Result<std::uint64_t> LeaseTable::add(Lease lease, std::string_view peer) {
  const core::Lock lock(mutex_);
  if (closed_) {
    return Status::error(StatusCode::kPeerDead, {"lease memory", peer}, "the peer is gone",
                         "restart it and connect again");
  }
  if (held_.size() >= kMaxLeases || !quota_.try_charge(lease.range.bytes)) {
    return Status::error(StatusCode::kResourceExhausted, {"lease memory", peer},
                         "the peer holds " + std::to_string(quota_.in_use()) + " of " +
                             std::to_string(quota_.limit()) + " bytes in " +
                             std::to_string(held_.size()) + " leases, and " +
                             std::to_string(lease.range.bytes) + " more exceed the limit",
                         "let the peer drop what it has looked up and its aliases, or raise "
                         "send_limit_per_peer");
  }
  ++granted_;
  ++last_;
  if (remembers_ranges_) {
    places_.emplace(lease.range.key, lease.range.offset, lease.range.bytes, last_);
  }
  held_.emplace(last_, std::move(lease));
  return last_;
}

LeaseTable::Lease LeaseTable::take(std::unordered_map<std::uint64_t, Lease>::iterator held) {
  Lease lease = std::move(held->second);
  if (remembers_ranges_) {
    places_.erase({lease.range.key, lease.range.offset, lease.range.bytes, held->first});
  }
  held_.erase(held);
  quota_.release(lease.range.bytes);
  return lease;
}

bool LeaseTable::covers(const LeasedRange& range) const {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const core::Lock lock(mutex_);
  // The last lease that begins in front of the bytes covers them, unless leases overlap.
  auto place = places_.upper_bound({range.key, range.offset, kMost, kMost});
  while (place != places_.begin()) {
    const auto& [key, offset, bytes, lease] = *--place;
    if (key != range.key) return false;
    const std::uint64_t begin = range.offset - offset;
    if (begin <= bytes && range.bytes <= bytes - begin) return true;
  }
  return false;
}

bool LeaseTable::withdraw(std::uint64_t lease) {
  Lease withdrawn;  // its end may take a while: after the lock
  const core::Lock lock(mutex_);
  const auto found = held_.find(lease);
  if (found == held_.end()) return false;
  withdrawn = take(found);
  --granted_;
  return true;
}

void LeaseTable::release(std::uint64_t lease) {
  Lease ended;
  {
    const core::Lock lock(mutex_);
    const auto found = held_.find(lease);
    if (found == held_.end()) return;
    ended = take(found);
    ++released_;
  }
  if (ended.returned) ended.returned();
}

void LeaseTable::close() {
  std::unordered_map<std::uint64_t, Lease> ended;
  {
    const core::Lock lock(mutex_);
    closed_ = true;
    ended.swap(held_);
    places_.clear();
    released_ += ended.size();
    for (const auto& [lease, entry] : ended) quota_.release(entry.range.bytes);
  }
  for (const auto& [lease, entry] : ended) {
    if (entry.returned) entry.returned();
  }
}

std::uint64_t LeaseTable::granted() const {
  const core::Lock lock(mutex_);
  return granted_;
}

std::uint64_t LeaseTable::released() const {
  const core::Lock lock(mutex_);
  return released_;
}

std::uint64_t LeaseTable::held() const {
  const core::Lock lock(mutex_);
  return held_.size();
}

}  // namespace farwrite::device
