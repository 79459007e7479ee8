// What a device shows of itself: its metrics, and the counters of channels that are gone.
#include <algorithm>

#include "core/mutex.h"
#include "device/device_state.h"
#include "device/metrics.h"

namespace farwrite::device {

void DeviceState::remember_locked(FabricKind fabric, const ChannelStats& last) {
  const auto found = std::find_if(gone_.begin(), gone_.end(), [&](const GoneChannels& entry) {
    return entry.fabric == fabric;
  });
  GoneChannels& gone = found != gone_.end() ? *found : gone_.emplace_back(GoneChannels{fabric, {}});
  add_counters(gone.stats, last);
}

std::string DeviceState::metrics_text() const {
  if (fork_guard_.in_forked_child()) return {};  // the locks may be held for ever
  DeviceMetrics metrics;
  metrics.endpoint = endpoint().to_string();
  metrics.stats = stats();
  std::vector<std::shared_ptr<ChannelState>> channels;
  {
    // Together, so that a channel that goes is counted once, here or there.
    const core::Lock lock(mutex_);
    channels = channels_;
    metrics.gone = gone_;
  }
  for (const FabricKind fabric : options_.fabrics) {
    const bool known =
        std::any_of(metrics.gone.begin(), metrics.gone.end(),
                    [&](const GoneChannels& entry) { return entry.fabric == fabric; });
    if (!known) metrics.gone.push_back({fabric, {}});
  }
  for (const auto& channel : channels) {
    metrics.channels.push_back({channel->number(), channel->peer_name(), channel->peer().fabric,
                                channel->peer().fabric_reason, channel->peer_state(),
                                channel->stats()});
  }
  return to_prometheus(metrics);
}

}  // namespace farwrite::device
