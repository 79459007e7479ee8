#include "core/counter_table.h"

#include <array>
#include <string>
#include <vector>

namespace farwrite::core {
namespace {

// clang-format off
constexpr CounterRow<MemoryStats> kMemory[] = {
    {"limit", &MemoryStats::limit, "Memory that may be registered.", "limit_bytes"},
    {"reserved", &MemoryStats::reserved, "Memory taken from the kernel.", "reserved_bytes"},
    {"used", &MemoryStats::used, "Memory in regions.", "used_bytes"},
    {"peak_used", &MemoryStats::peak_used, "The highest amount of memory in regions.",
     "peak_used_bytes"},
    {"segments", &MemoryStats::segments, "Segments, each registered once.", "segments"},
    {"refusals", &MemoryStats::refusals, "Allocations refused because a limit was reached.",
     "refusals_total"},
    {"held_back", &MemoryStats::held_back, "Freed memory that a forked child may still read.",
     "held_back_bytes"},
};

constexpr CounterRow<AdapterStats> kAdapter[] = {
    {"segments", &AdapterStats::segments, "Segments registered with an adapter.",
     "segment_registrations_total"},
    {"on_demand", &AdapterStats::on_demand,
     "Times that users' own memory was registered with an adapter.",
     "on_demand_registrations_total"},
    {"live", &AdapterStats::live, "Registrations that an adapter holds.", "registrations"},
    {"live_bytes", &AdapterStats::live_bytes, "Memory that an adapter holds registered.",
     "registered_bytes"},
    {"nanoseconds", &AdapterStats::nanoseconds, "Time spent in registering and deregistering.",
     "registration_seconds_total"},
    {"transfers", &AdapterStats::transfers, "Transfers by an adapter from or to local memory.",
     "transfers_total"},
    {"transfers_registered", &AdapterStats::transfers_registered,
     "Of these, transfers whose memory had to be registered first.", "transfers_registered_total"},
};

constexpr CounterRow<GpuStats> kGpu[] = {
    {"mappings", &GpuStats::mappings, "Times that GPU memory was mapped, own or a peer's.",
     "mappings_total"},
    {"mapped_bytes", &GpuStats::mapped_bytes, "GPU memory that is mapped.", "mapped_bytes"},
    {"copies", &GpuStats::copies, "Copies that a GPU made.", "copies_total"},
    {"copied_bytes", &GpuStats::copied_bytes, "Bytes of these copies.", "copied_bytes_total"},
    {"staged_bytes", &GpuStats::staged_bytes,
     "Of these, bytes on their way through host memory, because a fabric does not reach GPUs.",
     "staged_bytes_total"},
    {"pins", &GpuStats::pins, "Times that host memory was registered with the CUDA driver.",
     "pins_total"},
    {"pinned_bytes", &GpuStats::pinned_bytes,
     "Host memory that is registered with the CUDA driver.", "pinned_bytes"},
};

constexpr CounterRow<DeviceStats> kDeviceRows[] = {
    {"registrations", &DeviceStats::registrations, "Segments handed to a fabric.",
     "registrations_total"},
    {"channels_opened", &DeviceStats::channels_opened,
     "Channels that were opened, by either side.", "channels_opened_total"},
    {"channels_open", &DeviceStats::channels_open, "Channels that are open.", "channels_open"},
    {"handshakes_refused", &DeviceStats::handshakes_refused, "Connections that were refused.",
     "handshakes_refused_total"},
    {"leases_held_by_peers", &DeviceStats::leases_held_by_peers,
     "Leases on this device's memory that peers hold.", "leases_held_by_peers"},
    {"quarantined_bytes", &DeviceStats::quarantined_bytes,
     "Memory that silent peers may still write.", "quarantined_bytes"},
};

constexpr CounterRow<ChannelStats> kChannel[] = {
    {"writes", &ChannelStats::writes, "Writes, with and without a notification.",
     "operations_total", "write", "out", "Transfers."},
    {"reads", &ChannelStats::reads, "Reads.", "operations_total", "read", "in"},
    {"aliases", &ChannelStats::aliases, "Views of the peer's memory that were made.",
     "operations_total", "alias", "in"},
    {"bytes_written", &ChannelStats::bytes_written, "Bytes of the writes.",
     "bytes_total", "write", "out", "Payload of transfers."},
    {"bytes_read", &ChannelStats::bytes_read, "Bytes of the reads.", "bytes_total", "read", "in"},
    {"bytes_aliased", &ChannelStats::bytes_aliased, "Bytes of the views.",
     "bytes_total", "alias", "in"},
    {"copies", &ChannelStats::copies, "Passes over payload by this process's CPU.",
     "copies_total"},
    {"notifications_sent", &ChannelStats::notifications_sent,
     "Notifications without a message that were sent.",
     "notifications_total", "", "out", "Notifications without a message."},
    {"notifications_received", &ChannelStats::notifications_received,
     "Notifications without a message that came.", "notifications_total", "", "in"},
    {"messages_sent", &ChannelStats::messages_sent,
     "Notifications with a message that were sent.",
     "messages_total", "", "out", "Notifications with a message."},
    {"messages_received", &ChannelStats::messages_received,
     "Notifications with a message that came.", "messages_total", "", "in"},
    {"backlogged", &ChannelStats::backlogged, "Notifications that waited for room at the peer.",
     "backlogged_total"},
    {"doorbells", &ChannelStats::doorbells, "Times a sleeping peer had to be woken.",
     "doorbells_total"},
    {"leases_granted", &ChannelStats::leases_granted,
     "Leases on this device's memory, given to the peer.", "leases_granted_total"},
    {"leases_released", &ChannelStats::leases_released,
     "Of these, leases given back or ended by the peer's death.", "leases_released_total"},
    {"silences", &ChannelStats::silences, "Times the peer fell silent.", "silences_total"},
    {"leases_held", &ChannelStats::leases_held,
     "Leases on the peer's memory that this device holds.", "leases_held"},
    {"quarantined_bytes", &ChannelStats::quarantined_bytes,
     "Memory that a silent peer may still write.", "quarantined_bytes"},
};

constexpr CounterRow<TensorStats> kTensor[] = {
    {"pushed", &TensorStats::pushed, "Arrays written into slots."},
    {"offered", &TensorStats::offered, "Arrays offered, for any reason."},
    {"offers_no_slot", &TensorStats::offers_no_slot, "Arrays offered because no slot was free."},
    {"staged", &TensorStats::staged, "Arrays that the sender copied into memory that it can lend."},
    {"aliased", &TensorStats::aliased, "Offers that the receiver viewed in the sender's memory."},
    {"read", &TensorStats::read, "Offers that the receiver read."},
    {"eager", &TensorStats::eager, "Offers that had the array, a small one, in the message."},
    {"allocations", &TensorStats::allocations, "Memory blocks allocated for an array."},
    {"registrations", &TensorStats::registrations,
     "Segments that the device registered since the edge was opened."},
    {"requests", &TensorStats::requests, "Requests to the peer: to open a slot, or to read."},
    {"dropped_stale", &TensorStats::dropped_stale,
     "Pushes sent before a reset and dropped. Their slots were granted again."},
    {"dropped_malformed", &TensorStats::dropped_malformed,
     "Pushes dropped because they did not match the announcement."},
    {"dropped_offers", &TensorStats::dropped_offers,
     "Offers dropped because they were stale or malformed."},
    {"dropped_unseen", &TensorStats::dropped_unseen,
     "Arrays that arrived, and were dropped by a reset or close before they were received."},
    {"grants", &TensorStats::grants, "Times that a slot was granted to the sender."},
    {"revoked", &TensorStats::revoked, "Unused grants that a reset or close took back."},
    {"slots_free", &TensorStats::slots_free, "Slots that are free now."},
    {"slots_granted", &TensorStats::slots_granted, "Slots that the sender may write now."},
    {"slots_landed", &TensorStats::slots_landed, "Slots that hold an array now, not received yet."},
    {"slots_viewed", &TensorStats::slots_viewed, "Slots that existing arrays view now."},
};

constexpr CounterRow<box::ClientStats> kClient[] = {
    {"reads", &box::ClientStats::reads, "Reads of segments."},
    {"read_retries", &box::ClientStats::read_retries,
     "Segments and chunks that were read again, because they changed meanwhile."},
    {"leased_reads", &box::ClientStats::leased_reads,
     "Reads for which the server pinned a buffer, after failed tries."},
    {"changes", &box::ClientStats::changes, "Changes posted."},
    {"staged_bytes", &box::ClientStats::staged_bytes,
     "Bytes copied before the server read them. Memory that the client allocated needs no such"
     " copy."},
    {"leases", &box::ClientStats::leases, "Leases that the server granted."},
};

constexpr CounterRow<stream::Stats> kStream[] = {
    {"messages", &stream::Stats::messages, "Messages sent that hold bytes of slices."},
    {"message_bytes", &stream::Stats::message_bytes, "Bytes sent in messages."},
    {"lent", &stream::Stats::lent, "Regions that were lent, of one slice or several."},
    {"lent_bytes", &stream::Stats::lent_bytes, "Bytes of these regions."},
    {"staged_bytes", &stream::Stats::staged_bytes,
     "Of these, bytes copied to where a peer can read them."},
    {"aliased_bytes", &stream::Stats::aliased_bytes, "Bytes received without a copy."},
    {"read_bytes", &stream::Stats::read_bytes, "Bytes received by a read from the peer's memory."},
    {"held_back_bytes", &stream::Stats::held_back_bytes,
     "Of these, bytes read because its receiver holds as many as it may."},
    {"credits", &stream::Stats::credits, "Messages that only returned credit."},
    {"waits", &stream::Stats::waits, "Times that a sender had bytes and waited for its peer."},
};

constexpr CounterRow<box::ServerStats> kServer[] = {
    {"clients", &box::ServerStats::clients, "Connected clients.", "clients"},
    {"segments", &box::ServerStats::segments, "Segments.", "segments"},
    {"segment_bytes", &box::ServerStats::segment_bytes, "Bytes of all buffers of all segments.",
     "segment_bytes"},
    {"changes", &box::ServerStats::changes, "Applied changes.", "changes_total"},
    {"bytes_changed", &box::ServerStats::bytes_changed, "Bytes that applied changes covered.",
     "changed_bytes_total"},
    {"refused", &box::ServerStats::refused, "Requests that ended with an error.",
     "refusals_total"},
    {"switches", &box::ServerStats::switches,
     "Changes that filled another buffer and made it current.", "switches_total"},
    {"copies_for_leases", &box::ServerStats::copies_for_leases,
     "Buffers copied because a lease pinned the current one.", "lease_copies_total"},
    {"leases", &box::ServerStats::leases, "Leases that clients or a snapshot hold.", "leases"},
    {"leases_granted", &box::ServerStats::leases_granted, "Leases granted.", "leases_total"},
    {"snapshots", &box::ServerStats::snapshots, "Snapshots written.", "snapshots_total"},
    {"snapshot_failures", &box::ServerStats::snapshot_failures,
     "Snapshots that failed. The one before them is kept.", "snapshot_failures_total"},
};
// clang-format on

// Every field has one row: the structs hold nothing else, apart from what `others` counts.
template <typename Stats, std::size_t rows>
constexpr bool complete(const CounterRow<Stats> (&table)[rows], std::size_t others = 0) {
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (table[i].field == table[j].field) return false;
    }
  }
  return sizeof(Stats) == rows * sizeof(std::uint64_t) + others;
}
static_assert(complete(kMemory));
static_assert(complete(kAdapter));
static_assert(complete(kGpu));
static_assert(complete(kDeviceRows, 2 * sizeof(MemoryStats) + sizeof(AdapterStats) +
                                        sizeof(GpuStats) + sizeof(std::vector<std::string>)));
static_assert(complete(kChannel));
static_assert(complete(kTensor));
static_assert(complete(kClient));
static_assert(complete(kServer));
static_assert(complete(kStream));

}  // namespace

#define FARWRITE_COUNTERS(Stats, name, prefix, rows)                   \
  template <>                                                          \
  const CounterTable<Stats>& counters() {                              \
    static constexpr CounterTable<Stats> table = {name, prefix, rows}; \
    return table;                                                      \
  }
FARWRITE_COUNTERS(MemoryStats, "MemoryStats", "farwrite_memory_", kMemory)
FARWRITE_COUNTERS(AdapterStats, "AdapterStats", "farwrite_adapter_", kAdapter)
FARWRITE_COUNTERS(GpuStats, "GpuStats", "farwrite_gpu_", kGpu)
FARWRITE_COUNTERS(DeviceStats, "DeviceStats", "farwrite_", kDeviceRows)
FARWRITE_COUNTERS(ChannelStats, "ChannelStats", "farwrite_channel_", kChannel)
FARWRITE_COUNTERS(TensorStats, "TensorStats", "", kTensor)
FARWRITE_COUNTERS(box::ClientStats, "ClientStats", "", kClient)
FARWRITE_COUNTERS(box::ServerStats, "ServerStats", "farwrite_box_", kServer)
FARWRITE_COUNTERS(stream::Stats, "StreamStats", "", kStream)
#undef FARWRITE_COUNTERS

}  // namespace farwrite::core
