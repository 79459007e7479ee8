// RemoteRegionState: a peer's region as this side holds it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/deadline.h"
#include "core/mutex.h"
#include "core/region.h"
#include "fabric/fabric.h"
#include "farwrite/status.h"
#include "memory/forked_readers.h"

namespace farwrite::device {

class ChannelState;

// The last owner gives the lease back, unless a forked child may still look at the peer's memory:
// then the channel does so once the child has ended. Thread-safe.
class RemoteRegionState {
 public:
  // Opened: reached already. `lease` is 0 if it needs none.
  RemoteRegionState(std::shared_ptr<ChannelState> channel, RegionDescriptor descriptor,
                    std::string description, std::uint64_t lease,
                    std::shared_ptr<fabric::RemoteWindow> window);
  // Lent: reached at the first use. `taken_back`, if not ok, is why it never can be.
  RemoteRegionState(std::shared_ptr<ChannelState> channel, RegionDescriptor descriptor,
                    std::uint64_t lease, Status taken_back);
  ~RemoteRegionState();
  RemoteRegionState(const RemoteRegionState&) = delete;
  RemoteRegionState& operator=(const RemoteRegionState&) = delete;

  const std::shared_ptr<ChannelState>& channel() const { return channel_; }
  const RegionDescriptor& descriptor() const { return descriptor_; }
  const std::string& description() const { return description_; }
  // Whether its owner keeps the memory for us.
  bool leased() const { return lease_ != 0 && use_.load() != Use::kGivenBack; }
  // A program is about to look at the memory. False if the lease was given back.
  bool begin_alias();
  // The channel closes, so that no operation reads the memory any more. Returns the lease if no
  // program looks at it either, and then it is the caller's to give back; else 0.
  std::uint64_t take_unused_lease();

  // Imports the window unless that is done; may ask the peer, so not on the loop's thread. The
  // caller holds the channel's gate.
  Status reach(core::Deadline deadline);
  bool reached() const { return reached_.load(std::memory_order_acquire); }
  // The host's until it is reached.
  MemoryKind kind() const {
    return reached() && window_->gpu != nullptr ? MemoryKind::cuda(window_->gpu->ordinal())
                                                : MemoryKind();
  }
  // Only once it is reached.
  const std::shared_ptr<fabric::RemoteWindow>& window() const { return window_; }

 private:
  enum class Use { kHeld, kAliased, kGivenBack };

  const std::shared_ptr<ChannelState> channel_;
  const RegionDescriptor descriptor_;
  const std::string description_;
  const std::uint64_t lease_;
  std::atomic<Use> use_{Use::kHeld};
  const std::uint64_t made_ = memory::ForkedReaders::stamp();
  const Status taken_back_;
  core::Mutex reaching_{core::LockRank::kDevice};
  std::shared_ptr<fabric::RemoteWindow> window_;  // fixed once reached_
  std::atomic<bool> reached_;
};

// The regions of a channel that hold a lease. Thread-safe.
class OpenedRegions {
 public:
  void add(RemoteRegionState& region);
  void remove(RemoteRegionState& region);
  // Of all regions; see RemoteRegionState::take_unused_lease().
  std::vector<std::uint64_t> take_unused_leases();

 private:
  core::Mutex mutex_{core::LockRank::kDeviceTables};
  std::unordered_set<RemoteRegionState*> regions_ FW_GUARDED_BY(mutex_);
};

}  // namespace farwrite::device
