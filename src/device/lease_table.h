// LeaseTable: which of our regions one peer looks at. HELD -> RELEASED (farwrite/slot.h).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "device/region_state.h"
#include "farwrite/status.h"
#include "memory/quota.h"

namespace farwrite::device {

// Thread-safe. A held lease keeps its region's memory from being reused.
class LeaseTable {
 public:
  // `limit_bytes`: what this peer may hold at once.
  explicit LeaseTable(std::uint64_t limit_bytes) : quota_("send_limit_per_peer", limit_bytes) {}

  // kResourceExhausted over the quota.
  Result<std::uint64_t> grant(std::shared_ptr<RegionState> region, std::string_view peer);
  // Unknown leases are ignored: a peer can only harm itself by them.
  void release(std::uint64_t lease);
  // The peer has said that it holds none any more.
  void release_all();
  // The peer is dead: releases all, and grants none from now on.
  void close();

  std::uint64_t granted() const;
  std::uint64_t released() const;
  std::uint64_t held() const;

 private:
  memory::Quota quota_;
  mutable std::mutex mutex_;
  bool closed_ = false;
  std::uint64_t granted_ = 0;
  std::uint64_t released_ = 0;
  std::unordered_map<std::uint64_t, std::shared_ptr<RegionState>> held_;
};

}  // namespace farwrite::device
