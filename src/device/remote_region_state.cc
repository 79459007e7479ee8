#include "device/remote_region_state.h"

#include <mutex>
#include <utility>

#include "core/mutex.h"
#include "core/poll_until.h"
#include "device/channel_state.h"

namespace farwrite::device {

RemoteRegionState::RemoteRegionState(std::shared_ptr<ChannelState> channel,
                                     RegionDescriptor descriptor, std::string description,
                                     std::uint64_t lease,
                                     std::shared_ptr<fabric::RemoteWindow> window)
    : channel_(std::move(channel)),
      descriptor_(std::move(descriptor)),
      description_(std::move(description)),
      lease_(lease),
      window_(std::move(window)),
      reached_(true) {
  channel_->opened().add(*this);
}

RemoteRegionState::RemoteRegionState(std::shared_ptr<ChannelState> channel,
                                     RegionDescriptor descriptor, std::uint64_t lease,
                                     Status taken_back)
    : channel_(std::move(channel)),
      descriptor_(std::move(descriptor)),
      lease_(lease),
      taken_back_(std::move(taken_back)),
      reached_(false) {
  channel_->opened().add(*this);
}

RemoteRegionState::~RemoteRegionState() {
  if (lease_ == 0) return;
  channel_->opened().remove(*this);
  if (!leased()) return;
  const bool mapped = window_ != nullptr && window_->mapped != nullptr;
  if (mapped && memory::ForkedReaders::may_read(made_)) {
    channel_->hold_remote(lease_, made_);
  } else {
    channel_->release_remote(lease_);
  }
}

bool RemoteRegionState::begin_alias() {
  Use before = Use::kHeld;
  return use_.compare_exchange_strong(before, Use::kAliased) || before == Use::kAliased;
}

std::uint64_t RemoteRegionState::take_unused_lease() {
  Use before = Use::kHeld;
  return use_.compare_exchange_strong(before, Use::kGivenBack) ? lease_ : 0;
}

Status RemoteRegionState::reach(core::Deadline deadline) {
  if (reached()) return Status();
  FARWRITE_RETURN_IF_ERROR(taken_back_);
  if (!core::lock_until(reaching_, deadline)) {
    return Status::error(StatusCode::kDeadlineExceeded, {"open memory", channel_->peer_name()},
                         "another thread is waiting for the peer's answer", "allow more time");
  }
  const core::Lock lock(reaching_, std::adopt_lock);
  if (reached()) return Status();
  auto window = channel_->import(descriptor_, deadline);
  if (!window.ok()) return window.status();
  window_ = *std::move(window);
  reached_.store(true, std::memory_order_release);
  return Status();
}

void OpenedRegions::add(RemoteRegionState& region) {
  if (!region.leased()) return;
  const core::Lock lock(mutex_);
  regions_.insert(&region);
}

void OpenedRegions::remove(RemoteRegionState& region) {
  const core::Lock lock(mutex_);
  regions_.erase(&region);
}

std::vector<std::uint64_t> OpenedRegions::take_unused_leases() {
  std::vector<std::uint64_t> leases;
  const core::Lock lock(mutex_);
  for (RemoteRegionState* const region : regions_) {
    if (const std::uint64_t lease = region->take_unused_lease(); lease != 0)
      leases.push_back(lease);
  }
  return leases;
}

}  // namespace farwrite::device
