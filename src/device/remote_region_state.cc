#include "device/remote_region_state.h"

#include <utility>

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
      reached_(true) {}

RemoteRegionState::RemoteRegionState(std::shared_ptr<ChannelState> channel,
                                     RegionDescriptor descriptor, std::uint64_t lease,
                                     Status taken_back)
    : channel_(std::move(channel)),
      descriptor_(std::move(descriptor)),
      lease_(lease),
      taken_back_(std::move(taken_back)),
      reached_(false) {}

RemoteRegionState::~RemoteRegionState() {
  if (lease_ != 0) channel_->release_remote(lease_);
}

Status RemoteRegionState::reach(core::Deadline deadline) {
  if (reached()) return Status();
  FARWRITE_RETURN_IF_ERROR(taken_back_);
  const std::lock_guard<std::mutex> lock(reaching_);
  if (reached()) return Status();
  auto window = channel_->import(descriptor_, deadline);
  if (!window.ok()) return window.status();
  window_ = *std::move(window);
  reached_.store(true, std::memory_order_release);
  return Status();
}

}  // namespace farwrite::device
