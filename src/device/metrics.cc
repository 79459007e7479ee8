#include "device/metrics.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace farwrite::device {
namespace {

using Labels = std::vector<std::pair<std::string_view, std::string_view>>;

// A count of ChannelStats: rows of one family stand together, told apart by their labels.
struct ChannelRow {
  std::string_view family;  // without "farwrite_channel_" and "_total"
  std::string_view help;
  std::uint64_t ChannelStats::* count;
  std::string_view operation;
  std::string_view direction;
};

// "out" is what this device sent or moved to a peer, "in" what it got.
constexpr std::array kCounters = {
    ChannelRow{"operations", "Transfers.", &ChannelStats::writes, "write", "out"},
    ChannelRow{"operations", "", &ChannelStats::reads, "read", "in"},
    ChannelRow{"operations", "", &ChannelStats::aliases, "alias", "in"},
    ChannelRow{"bytes", "Payload of transfers.", &ChannelStats::bytes_written, "write", "out"},
    ChannelRow{"bytes", "", &ChannelStats::bytes_read, "read", "in"},
    ChannelRow{"bytes", "", &ChannelStats::bytes_aliased, "alias", "in"},
    ChannelRow{"copies", "Passes over payload by this process's CPU.", &ChannelStats::copies, "",
               ""},
    ChannelRow{"notifications", "Notifications without a message.",
               &ChannelStats::notifications_sent, "", "out"},
    ChannelRow{"notifications", "", &ChannelStats::notifications_received, "", "in"},
    ChannelRow{"messages", "Notifications with a message.", &ChannelStats::messages_sent, "",
               "out"},
    ChannelRow{"messages", "", &ChannelStats::messages_received, "", "in"},
    ChannelRow{"backlogged", "Notifications that waited for room at the peer.",
               &ChannelStats::backlogged, "", ""},
    ChannelRow{"doorbells", "Times a sleeping peer had to be woken.", &ChannelStats::doorbells, "",
               ""},
    ChannelRow{"leases_granted", "Leases on this device's memory, given to the peer.",
               &ChannelStats::leases_granted, "", ""},
    ChannelRow{"leases_released", "Of these, leases given back or ended by the peer's death.",
               &ChannelStats::leases_released, "", ""},
    ChannelRow{"silences", "Times the peer fell silent.", &ChannelStats::silences, "", ""},
};

constexpr std::array kGauges = {
    ChannelRow{"leases_held", "Leases on the peer's memory that this device holds.",
               &ChannelStats::leases_held, "", ""},
    ChannelRow{"quarantined_bytes", "Memory that a silent peer may still write.",
               &ChannelStats::quarantined_bytes, "", ""},
};

struct MemoryRow {
  std::string_view family;  // without "farwrite_memory_"
  std::string_view type;
  std::string_view help;
  std::uint64_t MemoryStats::* count;
};

constexpr std::array kMemory = {
    MemoryRow{"limit_bytes", "gauge", "Memory that may be registered.", &MemoryStats::limit},
    MemoryRow{"reserved_bytes", "gauge", "Memory taken from the kernel.", &MemoryStats::reserved},
    MemoryRow{"used_bytes", "gauge", "Memory in regions.", &MemoryStats::used},
    MemoryRow{"peak_used_bytes", "gauge", "The highest amount of memory in regions.",
              &MemoryStats::peak_used},
    MemoryRow{"segments", "gauge", "Segments, each registered once.", &MemoryStats::segments},
    MemoryRow{"refusals_total", "counter", "Allocations refused because a limit was reached.",
              &MemoryStats::refusals},
    MemoryRow{"held_back_bytes", "gauge", "Freed memory that a forked child may still read.",
              &MemoryStats::held_back},
};

struct DeviceRow {
  std::string_view family;  // without "farwrite_"
  std::string_view type;
  std::string_view help;
  std::uint64_t DeviceStats::* count;
};

constexpr std::array kDevice = {
    DeviceRow{"registrations_total", "counter", "Segments handed to a fabric.",
              &DeviceStats::registrations},
    DeviceRow{"channels_opened_total", "counter", "Channels that were opened, by either side.",
              &DeviceStats::channels_opened},
    DeviceRow{"channels_open", "gauge", "Channels that are open.", &DeviceStats::channels_open},
    DeviceRow{"handshakes_refused_total", "counter", "Connections that were refused.",
              &DeviceStats::handshakes_refused},
    DeviceRow{"leases_held_by_peers", "gauge", "Leases on this device's memory that peers hold.",
              &DeviceStats::leases_held_by_peers},
    DeviceRow{"quarantined_bytes", "gauge", "Memory that silent peers may still write.",
              &DeviceStats::quarantined_bytes},
};

struct AdapterRow {
  std::string_view family;  // without "farwrite_adapter_"
  std::string_view type;
  std::string_view help;
  std::uint64_t AdapterStats::* count;
};

constexpr std::array kAdapters = {
    AdapterRow{"segment_registrations_total", "counter", "Segments registered with an adapter.",
               &AdapterStats::segments},
    AdapterRow{"on_demand_registrations_total", "counter",
               "Times that users' own memory was registered with an adapter.",
               &AdapterStats::on_demand},
    AdapterRow{"registrations", "gauge", "Registrations that an adapter holds.",
               &AdapterStats::live},
    AdapterRow{"registered_bytes", "gauge", "Memory that an adapter holds registered.",
               &AdapterStats::live_bytes},
    AdapterRow{"registration_nanoseconds_total", "counter",
               "Time spent in registering and deregistering.", &AdapterStats::nanoseconds},
    AdapterRow{"transfers_total", "counter", "Transfers by an adapter from or to local memory.",
               &AdapterStats::transfers},
    AdapterRow{"transfers_registered_total", "counter",
               "Of these, transfers whose memory had to be registered first.",
               &AdapterStats::transfers_registered},
};

constexpr std::array kPeerStates = {PeerState::kAlive, PeerState::kSilent, PeerState::kClosed,
                                    PeerState::kDead};

class Exposition {
 public:
  explicit Exposition(std::string_view device) : device_(device) {}

  void family(std::string_view name, std::string_view type, std::string_view help) {
    name_ = "farwrite_" + std::string(name);
    text_ += "# HELP " + name_ + " ";
    text_ += help;
    text_ += "\n# TYPE " + name_ + " ";
    text_ += type;
    text_ += '\n';
  }

  // Of the family that was begun last. Labels without a value are left out.
  void sample(const Labels& labels, std::uint64_t value) {
    text_ += name_;
    text_ += "{device=\"";
    escape(device_);
    text_ += '"';
    for (const auto& [label, text] : labels) {
      if (text.empty()) continue;
      text_ += ',';
      text_ += label;
      text_ += "=\"";
      escape(text);
      text_ += '"';
    }
    text_ += "} " + std::to_string(value) + "\n";
  }

  std::string take() { return std::move(text_); }

 private:
  void escape(std::string_view text) {
    for (const char c : text) {
      if (c == '\\' || c == '"') {
        text_ += '\\';
        text_ += c;
      } else if (c == '\n') {
        text_ += "\\n";
      } else {
        // The format is UTF-8, and a peer's name is whatever the peer says.
        text_ += static_cast<unsigned char>(c) < 0x80 ? c : '?';
      }
    }
  }

  const std::string_view device_;
  std::string name_;
  std::string text_;
};

void write_device(Exposition& out, const DeviceStats& stats) {
  for (const MemoryRow& row : kMemory) {
    out.family("memory_" + std::string(row.family), row.type, row.help);
    out.sample({{"direction", "send"}}, stats.send.*row.count);
    out.sample({{"direction", "receive"}}, stats.receive.*row.count);
  }
  for (const DeviceRow& row : kDevice) {
    out.family(row.family, row.type, row.help);
    out.sample({}, stats.*row.count);
  }
  for (const AdapterRow& row : kAdapters) {
    out.family("adapter_" + std::string(row.family), row.type, row.help);
    out.sample({}, stats.adapters.*row.count);
  }
}

template <typename Rows, typename Write>
void write_families(Exposition& out, const Rows& rows, std::string_view prefix,
                    std::string_view suffix, std::string_view type, const Write& write) {
  for (auto row = rows.begin(); row != rows.end();) {
    const std::string_view family = row->family;
    out.family(std::string(prefix) + std::string(family) + std::string(suffix), type, row->help);
    for (; row != rows.end() && row->family == family; ++row) write(*row);
  }
}

void write_channels(Exposition& out, const std::vector<ChannelMetrics>& channels) {
  out.family("channel_info", "gauge", "How each peer is reached, and why.");
  for (const ChannelMetrics& channel : channels) {
    out.sample({{"channel", std::to_string(channel.number)},
                {"peer", channel.peer},
                {"fabric", to_string(channel.fabric)},
                {"reason", channel.fabric_reason}},
               1);
  }
  out.family("channel_peer_state", "gauge", "1 for the state that the peer is in.");
  for (const ChannelMetrics& channel : channels) {
    for (const PeerState state : kPeerStates) {
      out.sample({{"channel", std::to_string(channel.number)},
                  {"peer", channel.peer},
                  {"fabric", to_string(channel.fabric)},
                  {"state", to_string(state)}},
                 channel.state == state ? 1 : 0);
    }
  }
  const auto each_channel = [&](const ChannelRow& row) {
    for (const ChannelMetrics& channel : channels) {
      out.sample({{"channel", std::to_string(channel.number)},
                  {"peer", channel.peer},
                  {"fabric", to_string(channel.fabric)},
                  {"operation", row.operation},
                  {"direction", row.direction}},
                 channel.stats.*row.count);
    }
  };
  write_families(out, kCounters, "channel_", "_total", "counter", each_channel);
  write_families(out, kGauges, "channel_", "", "gauge", each_channel);
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
  write_families(out, kCounters, "", "_total", "counter", [&](const ChannelRow& row) {
    for (const GoneChannels& total : totals) {
      out.sample({{"fabric", to_string(total.fabric)},
                  {"operation", row.operation},
                  {"direction", row.direction}},
                 total.stats.*row.count);
    }
  });
}

}  // namespace

void add_counters(AdapterStats& total, const AdapterStats& fabric) {
  for (const AdapterRow& row : kAdapters) total.*row.count += fabric.*row.count;
}

void add_counters(ChannelStats& total, const ChannelStats& channel) {
  for (const ChannelRow& row : kCounters) total.*row.count += channel.*row.count;
}

std::string to_prometheus(const DeviceMetrics& metrics) {
  Exposition out(metrics.endpoint);
  write_device(out, metrics.stats);
  write_totals(out, metrics);
  write_channels(out, metrics.channels);
  return out.take();
}

}  // namespace farwrite::device
