#include "device/landing_memory.h"

#include <thread>
#include <utility>

#include "core/mutex.h"

namespace farwrite::device {

Result<std::shared_ptr<memory::Arena>> LandingMemory::make_arena(
    const memory::ArenaOptions& options) {
  const core::Lock lock(mutex_);
  if (arena_ != nullptr) return arena_;
  auto created = memory::Arena::create(options);
  if (!created.ok()) return created.status();
  arena_ = *std::move(created);
  return arena_;
}

std::shared_ptr<memory::Arena> LandingMemory::arena() const {
  const core::Lock lock(mutex_);
  return arena_;
}

Result<RegionMemory> LandingMemory::take(const memory::ArenaOptions& options, MemoryKind kind,
                                         std::uint64_t bytes) {
  if (kind.on_gpu()) return RegionMemory::on_gpu(kind, bytes, options.use);
  auto arena = make_arena(options);
  if (!arena.ok()) return arena.status();
  return RegionMemory::in(*std::move(arena), bytes);
}

Result<std::shared_ptr<RegionState>> LandingMemory::allocate(
    const memory::ArenaOptions& options, MemoryKind kind, RegionDescriptor descriptor,
    FabricKind fabric, const std::shared_ptr<RegionTable>& table,
    std::shared_ptr<LandingMemory> self) {
  auto memory = take(options, kind, descriptor.length);
  if (!memory.ok()) return memory.status();
  descriptor.offset = memory->offset();
  const std::shared_ptr<memory::Segment> segment = memory->segment();
  if (segment->gpu() != nullptr) descriptor.gpu = segment->gpu()->uuid();
  auto key =
      link_.get()->grant(segment, descriptor.offset, descriptor.length, descriptor.region_id);
  if (!key.ok()) {
    memory->free();
    return key.status();
  }
  descriptor.keys.push_back({fabric, *key});
  auto region = std::make_shared<RegionState>(table, *std::move(memory), std::move(descriptor),
                                              std::move(self));
  table->add(region);
  const core::Lock lock(mutex_);
  std::erase_if(regions_, [](const auto& entry) { return entry.second.expired(); });
  regions_.emplace(region->descriptor().region_id, region);
  return region;
}

Status LandingMemory::revoke(std::uint64_t key, std::uint64_t region_id,
                             std::chrono::nanoseconds timeout) {
  const core::Deadline deadline = core::Deadline::after(timeout);
  while (true) {
    // A finished channel has no link, and nothing lands without one. In short turns, because
    // finishing waits for them.
    const ChannelLink::LinkUse link(link_);
    if (!link) return Status();
    const Status status =
        link->revoke(key, region_id, deadline.earlier(core::Deadline::after(kFabricTurn)));
    if (status.ok() || deadline.expired()) return status;
  }
}

void LandingMemory::quarantine(std::uint64_t key, std::uint64_t region_id, RegionMemory memory) {
  const core::Lock lock(mutex_);
  quarantined_.push_back({key, region_id, std::move(memory)});
}

void LandingMemory::settle() {
  for (const auto& region : regions()) {
    // Closed while the peer was writing, and still held by the user.
    if (region->quarantined()) (void)region->close(std::chrono::nanoseconds(0));
  }
  const ChannelLink::LinkUse link(link_);
  if (!link) return;
  std::vector<Quarantined> settled;
  {
    // Held during the question, so that nothing in quarantine is ever missing from the count.
    const core::Lock lock(mutex_);
    std::erase_if(quarantined_, [&](const Quarantined& entry) {
      if (!link->revoke(entry.key, entry.region_id, core::Deadline::after({})).ok()) return false;
      settled.push_back(entry);
      return true;
    });
  }
  for (Quarantined& entry : settled) entry.memory.free();
}

Status LandingMemory::revoke_all(core::Deadline deadline) {
  Status first;
  for (const auto& region : regions()) {
    const Status closed = region->close(deadline.remaining());
    if (first.ok()) first = closed;
  }
  // Regions whose handles went while the peer was writing.
  while (quarantined_bytes() > 0) {
    settle();
    if (deadline.expired()) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (first.ok() && quarantined_bytes() > 0) {
    first = Status::error(StatusCode::kPeerSilent, {"close the channel", peer_name_},
                          "the peer is in the middle of a write and does not finish it",
                          "the memory is not reused before the peer's process ends");
  }
  return first;
}

void LandingMemory::release() {
  std::vector<Quarantined> quarantined;
  std::shared_ptr<memory::Arena> arena;
  {
    const core::Lock lock(mutex_);
    quarantined.swap(quarantined_);
    arena = arena_;
  }
  // Nothing is allocated from a finished channel's arena again, so nothing is reused.
  for (Quarantined& entry : quarantined) entry.memory.free();
  if (arena != nullptr) arena->retire();
}

void LandingMemory::reclaim() {
  if (const auto arena = this->arena(); arena != nullptr) arena->reclaim();
}

memory::ArenaStats LandingMemory::stats() const {
  const auto arena = this->arena();
  return arena == nullptr ? memory::ArenaStats() : arena->stats();
}

std::uint64_t LandingMemory::quarantined_bytes() const {
  std::uint64_t bytes = 0;
  {
    const core::Lock lock(mutex_);
    for (const Quarantined& entry : quarantined_) bytes += entry.memory.bytes();
  }
  for (const auto& region : regions()) {
    if (region->quarantined()) bytes += region->bytes();
  }
  return bytes;
}

std::vector<std::shared_ptr<RegionState>> LandingMemory::regions() const {
  std::vector<std::shared_ptr<RegionState>> regions;
  const core::Lock lock(mutex_);
  for (const auto& [id, weak] : regions_) {
    if (auto region = weak.lock()) regions.push_back(std::move(region));
  }
  return regions;
}

}  // namespace farwrite::device
