#include "device/region_state.h"

#include <mutex>
#include <utility>

#include "core/mutex.h"
#include "core/poll_until.h"
#include "device/landing_memory.h"

namespace farwrite::device {

void RegionTable::add(const std::shared_ptr<RegionState>& region) {
  const std::uint64_t id = region->descriptor().region_id;
  RegionShard& shard = this->shard(id);
  const core::Lock lock(shard.mutex);
  shard.regions[id] = region;
}

void RegionTable::remove(std::uint64_t id) {
  RegionShard& shard = this->shard(id);
  const core::Lock lock(shard.mutex);
  shard.regions.erase(id);
}

std::shared_ptr<RegionState> RegionTable::find(std::uint64_t id) const {
  const RegionShard& shard = this->shard(id);
  const core::Lock lock(shard.mutex);
  const auto found = shard.regions.find(id);
  return found == shard.regions.end() ? nullptr : found->second.lock();
}

RegionState::RegionState(std::shared_ptr<RegionTable> table, RegionMemory memory,
                         RegionDescriptor descriptor, std::shared_ptr<LandingMemory> landing)
    : table_(std::move(table)),
      memory_(std::move(memory)),
      descriptor_(std::move(descriptor)),
      landing_(std::move(landing)) {}

RegionState::~RegionState() {
  if (fork_guard_.in_forked_child()) return;
  table_->remove(descriptor_.region_id);
  if (landing_ == nullptr || close(std::chrono::nanoseconds(0)).ok()) {
    memory_.free();
  } else {
    landing_->quarantine(landing_key(), descriptor_.region_id, std::move(memory_));
  }
}

Status RegionState::close(std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("close memory"));
  closed_.store(true);
  if (landing_ == nullptr) return Status();
  const core::Deadline deadline = core::Deadline::after(timeout);
  // The event loop asks without a timeout, and must not wait for a user's thread that has one.
  if (!core::lock_until(revoke_mutex_, deadline)) {
    return Status::error(StatusCode::kPeerSilent, {"close memory", landing_->peer_name()},
                         "another thread is waiting for the peer to finish its write",
                         "allow more time");
  }
  const core::Lock lock(revoke_mutex_, std::adopt_lock);
  if (revoked_.load()) return Status();
  const Status status =
      landing_->revoke(landing_key(), descriptor_.region_id, deadline.remaining());
  revoked_.store(status.ok());
  return status;
}

std::uint64_t find_key(const RegionDescriptor& descriptor, FabricKind kind) {
  for (const FabricKey& key : descriptor.keys) {
    if (key.fabric == kind) return key.key;
  }
  return 0;
}

}  // namespace farwrite::device
