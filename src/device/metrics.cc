#include "device/metrics.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

#include "core/counter_table.h"
#include "core/exposition.h"

namespace farwrite::device {
namespace {

using core::CounterRow;
using core::counters;
using core::Exposition;

constexpr std::array kPeerStates = {PeerState::kAlive, PeerState::kSilent, PeerState::kClosed,
                                    PeerState::kDead};

void write_device(Exposition& out, const DeviceStats& stats) {
  const auto& memory = counters<MemoryStats>();
  out.families(memory.prefix, memory.rows, [&](const auto& row) {
    out.sample({{"direction", "send"}}, stats.send.*row.field);
    out.sample({{"direction", "receive"}}, stats.receive.*row.field);
  });
  const auto& device = counters<DeviceStats>();
  out.families(device.prefix, device.rows,
               [&](const auto& row) { out.sample({}, stats.*row.field); });
  const auto& adapters = counters<AdapterStats>();
  out.families(adapters.prefix, adapters.rows,
               [&](const auto& row) { out.sample({}, stats.adapters.*row.field); });
  const auto& gpu = counters<GpuStats>();
  out.families(gpu.prefix, gpu.rows,
               [&](const auto& row) { out.sample({}, stats.gpu.*row.field); });
}

void write_channels(Exposition& out, const std::vector<ChannelMetrics>& channels) {
  out.family("farwrite_channel_info", "gauge", "How each peer is reached, and why.");
  for (const ChannelMetrics& channel : channels) {
    out.sample({{"channel", std::to_string(channel.number)},
                {"peer", channel.peer},
                {"fabric", to_string(channel.fabric)},
                {"reason", channel.fabric_reason}},
               1);
  }
  out.family("farwrite_channel_peer_state", "gauge", "1 for the state that the peer is in.");
  for (const ChannelMetrics& channel : channels) {
    for (const PeerState state : kPeerStates) {
      out.sample({{"channel", std::to_string(channel.number)},
                  {"peer", channel.peer},
                  {"fabric", to_string(channel.fabric)},
                  {"state", to_string(state)}},
                 channel.state == state ? 1 : 0);
    }
  }
  const auto& table = counters<ChannelStats>();
  out.families(table.prefix, table.rows, [&](const auto& row) {
    for (const ChannelMetrics& channel : channels) {
      out.sample({{"channel", std::to_string(channel.number)},
                  {"peer", channel.peer},
                  {"fabric", to_string(channel.fabric)},
                  {"operation", row.operation},
                  {"direction", row.direction}},
                 channel.stats.*row.field);
    }
  });
}

// Over all channels, open and gone: these never fall, whatever comes and goes.
void write_totals(Exposition& out, const DeviceMetrics& metrics) {
  std::vector<GoneChannels> totals = metrics.gone;
  for (const ChannelMetrics& channel : metrics.channels) {
    const auto found = std::find_if(totals.begin(), totals.end(), [&](const GoneChannels& entry) {
      return entry.fabric == channel.fabric;
    });
    GoneChannels& total = found != totals.end() ? *found : totals.emplace_back();
    total.fabric = channel.fabric;
    add_counters(total.stats, channel.stats);
  }
  std::vector<CounterRow<ChannelStats>> growing;
  std::ranges::copy_if(counters<ChannelStats>().rows, std::back_inserter(growing),
                       &CounterRow<ChannelStats>::only_grows);
  out.families(counters<DeviceStats>().prefix, std::span<const CounterRow<ChannelStats>>(growing),
               [&](const auto& row) {
                 for (const GoneChannels& total : totals) {
                   out.sample({{"fabric", to_string(total.fabric)},
                               {"operation", row.operation},
                               {"direction", row.direction}},
                              total.stats.*row.field);
                 }
               });
}

}  // namespace

void add_counters(AdapterStats& total, const AdapterStats& fabric) {
  for (const auto& row : counters<AdapterStats>().rows) total.*row.field += fabric.*row.field;
}

void add_counters(ChannelStats& total, const ChannelStats& channel) {
  for (const auto& row : counters<ChannelStats>().rows) {
    if (row.only_grows()) total.*row.field += channel.*row.field;
  }
}

std::string to_prometheus(const DeviceMetrics& metrics) {
  Exposition out(metrics.endpoint);
  write_device(out, metrics.stats);
  write_totals(out, metrics);
  write_channels(out, metrics.channels);
  return out.take();
}

}  // namespace farwrite::device
