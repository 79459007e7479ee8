// Metrics: a device's counters in the Prometheus text exposition format, version 0.0.4.
// docs/reference/metrics.md lists the names.
#pragma once

#include <string>
#include <vector>

#include "device/channel.h"
#include "device/device.h"
#include "farwrite/options.h"

namespace farwrite::device {

// One open channel. `number` tells it from other channels to the same peer.
struct ChannelMetrics {
  std::uint64_t number = 0;
  std::string peer;
  FabricKind fabric = FabricKind::kShm;
  std::string fabric_reason;
  PeerState state = PeerState::kAlive;
  ChannelStats stats;
};

// The counters of all channels over one fabric that are gone.
struct GoneChannels {
  FabricKind fabric = FabricKind::kShm;
  ChannelStats stats;
};

struct DeviceMetrics {
  std::string endpoint;  // in every sample, as the label "device"
  DeviceStats stats;
  std::vector<ChannelMetrics> channels;
  std::vector<GoneChannels> gone;  // an entry for each fabric the device may use, or used
};

void add_counters(AdapterStats& total, const AdapterStats& fabric);

// Adds up what counts; what is there now (leases held, quarantined bytes) ends with a channel.
void add_counters(ChannelStats& total, const ChannelStats& channel);

std::string to_prometheus(const DeviceMetrics& metrics);

}  // namespace farwrite::device
