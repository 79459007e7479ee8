#include "python/counters.h"

namespace farwrite::python {
namespace {

constexpr Field<MemoryStats> kMemory[] = {
    {"limit", &MemoryStats::limit},         {"reserved", &MemoryStats::reserved},
    {"used", &MemoryStats::used},           {"peak_used", &MemoryStats::peak_used},
    {"segments", &MemoryStats::segments},   {"refusals", &MemoryStats::refusals},
    {"held_back", &MemoryStats::held_back},
};

constexpr Field<AdapterStats> kAdapter[] = {
    {"segments", &AdapterStats::segments},
    {"on_demand", &AdapterStats::on_demand},
    {"live", &AdapterStats::live},
    {"live_bytes", &AdapterStats::live_bytes},
    {"nanoseconds", &AdapterStats::nanoseconds},
    {"transfers", &AdapterStats::transfers},
    {"transfers_registered", &AdapterStats::transfers_registered},
};

constexpr Field<GpuStats> kGpu[] = {
    {"mappings", &GpuStats::mappings},
    {"mapped_bytes", &GpuStats::mapped_bytes},
    {"copies", &GpuStats::copies},
    {"copied_bytes", &GpuStats::copied_bytes},
    {"staged_bytes", &GpuStats::staged_bytes},
    {"pins", &GpuStats::pins},
    {"pinned_bytes", &GpuStats::pinned_bytes},
};

constexpr Field<DeviceStats> kDevice[] = {
    {"registrations", &DeviceStats::registrations},
    {"channels_opened", &DeviceStats::channels_opened},
    {"channels_open", &DeviceStats::channels_open},
    {"handshakes_refused", &DeviceStats::handshakes_refused},
    {"leases_held_by_peers", &DeviceStats::leases_held_by_peers},
    {"quarantined_bytes", &DeviceStats::quarantined_bytes},
};

constexpr Field<ChannelStats> kChannel[] = {
    {"writes", &ChannelStats::writes},
    {"reads", &ChannelStats::reads},
    {"aliases", &ChannelStats::aliases},
    {"bytes_written", &ChannelStats::bytes_written},
    {"bytes_read", &ChannelStats::bytes_read},
    {"bytes_aliased", &ChannelStats::bytes_aliased},
    {"copies", &ChannelStats::copies},
    {"notifications_sent", &ChannelStats::notifications_sent},
    {"notifications_received", &ChannelStats::notifications_received},
    {"messages_sent", &ChannelStats::messages_sent},
    {"messages_received", &ChannelStats::messages_received},
    {"backlogged", &ChannelStats::backlogged},
    {"doorbells", &ChannelStats::doorbells},
    {"leases_granted", &ChannelStats::leases_granted},
    {"leases_released", &ChannelStats::leases_released},
    {"leases_held", &ChannelStats::leases_held},
    {"quarantined_bytes", &ChannelStats::quarantined_bytes},
    {"silences", &ChannelStats::silences},
};

constexpr Field<TensorStats> kTensor[] = {
    {"pushed", &TensorStats::pushed},
    {"offered", &TensorStats::offered},
    {"offers_no_slot", &TensorStats::offers_no_slot},
    {"staged", &TensorStats::staged},
    {"aliased", &TensorStats::aliased},
    {"read", &TensorStats::read},
    {"eager", &TensorStats::eager},
    {"allocations", &TensorStats::allocations},
    {"registrations", &TensorStats::registrations},
    {"requests", &TensorStats::requests},
    {"dropped_stale", &TensorStats::dropped_stale},
    {"dropped_malformed", &TensorStats::dropped_malformed},
    {"dropped_offers", &TensorStats::dropped_offers},
    {"dropped_unseen", &TensorStats::dropped_unseen},
    {"grants", &TensorStats::grants},
    {"revoked", &TensorStats::revoked},
    {"slots_free", &TensorStats::slots_free},
    {"slots_granted", &TensorStats::slots_granted},
    {"slots_landed", &TensorStats::slots_landed},
    {"slots_viewed", &TensorStats::slots_viewed},
};

constexpr Field<box::ClientStats> kClient[] = {
    {"reads", &box::ClientStats::reads},
    {"read_retries", &box::ClientStats::read_retries},
    {"leased_reads", &box::ClientStats::leased_reads},
    {"changes", &box::ClientStats::changes},
    {"staged_bytes", &box::ClientStats::staged_bytes},
    {"leases", &box::ClientStats::leases},
};

constexpr Field<box::ServerStats> kServer[] = {
    {"clients", &box::ServerStats::clients},
    {"segments", &box::ServerStats::segments},
    {"segment_bytes", &box::ServerStats::segment_bytes},
    {"changes", &box::ServerStats::changes},
    {"bytes_changed", &box::ServerStats::bytes_changed},
    {"refused", &box::ServerStats::refused},
    {"switches", &box::ServerStats::switches},
    {"copies_for_leases", &box::ServerStats::copies_for_leases},
    {"leases", &box::ServerStats::leases},
    {"leases_granted", &box::ServerStats::leases_granted},
    {"snapshots", &box::ServerStats::snapshots},
    {"snapshot_failures", &box::ServerStats::snapshot_failures},
};

}  // namespace

template <>
std::span<const Field<MemoryStats>> fields() {
  return kMemory;
}
template <>
std::span<const Field<AdapterStats>> fields() {
  return kAdapter;
}
template <>
std::span<const Field<GpuStats>> fields() {
  return kGpu;
}
template <>
std::span<const Field<DeviceStats>> fields() {
  return kDevice;
}
template <>
std::span<const Field<ChannelStats>> fields() {
  return kChannel;
}
template <>
std::span<const Field<TensorStats>> fields() {
  return kTensor;
}
template <>
std::span<const Field<box::ClientStats>> fields() {
  return kClient;
}
template <>
std::span<const Field<box::ServerStats>> fields() {
  return kServer;
}

}  // namespace farwrite::python
