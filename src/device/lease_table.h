// LeaseTable: which of our memory one peer looks at. HELD -> RELEASED.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string_view>
#include <tuple>
#include <unordered_map>

#include "core/mutex.h"
#include "device/region_state.h"
#include "farwrite/status.h"
#include "memory/quota.h"

namespace farwrite::device {

// Bytes of an export segment, as a peer's fabric names them.
struct LeasedRange {
  std::uint64_t key = 0;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Thread-safe. A held lease keeps its region's memory from being reused, or its lender from doing
// so itself.
class LeaseTable {
 public:
  // `limit_bytes`: what this peer may hold at once.
  explicit LeaseTable(std::uint64_t limit_bytes) : quota_("send_limit_per_peer", limit_bytes) {}

  // From now on, covers() knows what is leased. Called before the first lease.
  void remember_ranges() { remembers_ranges_ = true; }

  // A lease on all of the region, which lies at `range`. kResourceExhausted over the quota.
  Result<std::uint64_t> grant(std::shared_ptr<RegionState> region, const LeasedRange& range,
                              std::string_view peer);
  // A lease on memory that its lender looks after: `returned` runs once when it ends, without a
  // lock held.
  Result<std::uint64_t> lend(const LeasedRange& range, std::function<void()> returned,
                             std::string_view peer);
  // Undoes lend() as if it had not been: `returned` does not run. False if the lease has ended.
  bool withdraw(std::uint64_t lease);
  // Unknown leases are ignored: a peer can only harm itself by them.
  void release(std::uint64_t lease);
  // The peer is dead, or has said that it holds none any more and never will: releases all, and
  // grants none from now on.
  void close();

  // Whether one lease covers all of these bytes.
  bool covers(const LeasedRange& range) const;

  std::uint64_t granted() const;
  std::uint64_t released() const;
  std::uint64_t held() const;

 private:
  struct Lease {
    LeasedRange range;
    std::shared_ptr<RegionState> region;  // or
    std::function<void()> returned;
  };
  // Key, offset, bytes and lease.
  using Place = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>;

  Result<std::uint64_t> add(Lease lease, std::string_view peer);
  // Under mutex_. Takes a held lease out.
  Lease take(std::unordered_map<std::uint64_t, Lease>::iterator held) FW_REQUIRES(mutex_);

  bool remembers_ranges_ = false;
  memory::Quota quota_;
  mutable core::Mutex mutex_{core::LockRank::kDeviceTables};
  bool closed_ FW_GUARDED_BY(mutex_) = false;
  std::uint64_t last_ FW_GUARDED_BY(mutex_) = 0;  // never reused
  std::uint64_t granted_ FW_GUARDED_BY(mutex_) = 0;
  std::uint64_t released_ FW_GUARDED_BY(mutex_) = 0;
  std::unordered_map<std::uint64_t, Lease> held_ FW_GUARDED_BY(mutex_);
  std::set<Place> places_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::device
