#include "simulated/simulated_fabric.h"

#include <limits>
#include <utility>

#include "core/mutex.h"
#include "simulated/simulated_link.h"
#include "simulated/simulated_world.h"

namespace farwrite::fabric {

SimulatedFabric::SimulatedFabric(SimulatedNetwork& network)
    : world_(network.world()), host_(world_->add_host()) {
  capabilities_.max_write_bytes = std::numeric_limits<std::uint64_t>::max();
  capabilities_.max_message_bytes = kSimulatedMaxMessageBytes;
  capabilities_.has_immediate = world_->options().has_immediate;
  capabilities_.whole_message_order = world_->options().whole_message_order;
  capabilities_.maps_peer_memory = true;
}

SimulatedFabric::~SimulatedFabric() { world_->remove_host(host_); }

Result<std::uint64_t> SimulatedFabric::register_segment(
    const std::shared_ptr<memory::Segment>& segment) {
  const core::Lock lock(world_->mutex());
  const std::uint64_t key = world_->new_key();
  host_->exports.add(key, segment, 0, segment->bytes(), Access::kRead);
  return key;
}

Result<std::shared_ptr<const void>> SimulatedFabric::register_memory(ByteView memory,
                                                                     bool /*writable*/) {
  registrations_->made.add();
  registrations_->made_bytes.add(memory.size);
  return std::shared_ptr<const void>(
      memory.data, [counts = registrations_, bytes = memory.size](const void* /*data*/) {
        counts->released.add();
        counts->released_bytes.add(bytes);
      });
}

AdapterStats SimulatedFabric::registration_counters() const {
  AdapterStats stats;
  stats.on_demand = registrations_->made.value();
  stats.live = stats.on_demand - registrations_->released.value();
  stats.live_bytes = registrations_->made_bytes.value() - registrations_->released_bytes.value();
  return stats;
}

std::string SimulatedFabric::address() const { return simulated_address(*host_); }

Result<std::unique_ptr<Link>> SimulatedFabric::attach(const AttachRequest& request) {
  auto seat = world_->attach(host_, request);
  if (!seat.ok()) return seat.status();
  return std::unique_ptr<Link>(
      std::make_unique<SimulatedLink>(world_, seat->connection, seat->side, request.peer_name));
}

}  // namespace farwrite::fabric
