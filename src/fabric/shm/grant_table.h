// GrantTable: which of our landing regions the peer may write, and whether it is writing now.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <new>
#include <unordered_map>
#include <vector>

#include "core/deadline.h"
#include "core/mutex.h"
#include "fabric/shm/mailbox.h"
#include "farwrite/bytes.h"
#include "farwrite/status.h"
#include "memory/segment.h"

namespace farwrite::fabric::shm {

// A key for descriptors: the segment, and the row of the mailbox that guards the region.
struct GrantKey {
  std::uint32_t segment_id = 0;
  std::uint32_t row = 0;

  std::uint64_t pack() const { return std::uint64_t{segment_id} << 32 | row; }
  static GrantKey unpack(std::uint64_t key) {
    return {static_cast<std::uint32_t>(key >> 32), static_cast<std::uint32_t>(key)};
  }
};

// The owner's side. The rows lie in memory that the peer can write, so what it trusts is kept here;
// a peer that scribbles on them can only delay the reuse of its own landing memory. Thread-safe.
class GrantTable {
 public:
  explicit GrantTable(const MailboxView& mailbox)
      : mailbox_(mailbox), ranges_(new (std::nothrow) RegionRange[mailbox.geometry().rows]) {}

  // `region` is the part of the segment that the peer may write.
  Result<std::uint64_t> grant(const std::shared_ptr<memory::Segment>& segment, ByteView region,
                              std::uint64_t region_id, std::string_view peer);
  // Ok once no later byte of the peer can land; kPeerSilent when it did not settle in time.
  // A key is used again, so the region's id says whether the grant is still that one.
  Status revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline,
                std::string_view peer);
  // The peer's process is gone: nothing of it lands any more, whatever the rows say.
  void peer_died() { peer_dead_.store(true); }

  // Where the bytes of a write of the peer lie, if that is in the region that the row guards, or
  // guarded last; else none. To fetch them early, and for nothing else: takes no lock.
  ByteView hinted(const LandingHint& landing) const;

  // A segment that holds granted regions, or null: only those may be handed to the peer.
  std::shared_ptr<memory::Segment> find_segment(std::uint32_t segment_id) const;

 private:
  // Where a row's region lies. Only hinted() uses it, so it may be out of date.
  struct RegionRange {
    std::atomic<const std::byte*> base{nullptr};
    std::atomic<std::uint64_t> bytes{0};
  };

  bool is_live_locked(std::uint64_t key, std::uint64_t region_id) const FW_REQUIRES(mutex_);

  const MailboxView mailbox_;
  const std::unique_ptr<RegionRange[]>
      ranges_;  // by row; without memory for it nothing is fetched early
  std::atomic<bool> peer_dead_{false};
  mutable core::Mutex mutex_{core::LockRank::kShm};
  std::uint32_t next_unused_row_ FW_GUARDED_BY(mutex_) = 0;
  std::vector<std::uint32_t> free_rows_ FW_GUARDED_BY(mutex_);
  std::unordered_map<std::uint64_t, std::uint64_t> live_
      FW_GUARDED_BY(mutex_);  // region ids by packed key
  struct Granted {
    std::shared_ptr<memory::Segment> segment;
    std::uint64_t regions = 0;
  };
  std::unordered_map<std::uint32_t, Granted> segments_ FW_GUARDED_BY(mutex_);  // by id
};

// The peer's side: announces one write for as long as it lives.
class InflightWrite {
 public:
  InflightWrite(GrantRow& row, std::uint64_t region_id) : row_(row) {
    row_.inflight.fetch_add(1);
    open_ = row_.open_region.load() == region_id;
  }
  ~InflightWrite() { row_.inflight.fetch_sub(1, std::memory_order_release); }
  InflightWrite(const InflightWrite&) = delete;
  InflightWrite& operator=(const InflightWrite&) = delete;

  bool open() const { return open_; }

 private:
  GrantRow& row_;
  bool open_ = false;
};

}  // namespace farwrite::fabric::shm
