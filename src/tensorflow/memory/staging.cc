#include "memory/staging.h"

#include <atomic>
#include <utility>

#include "memory/received_buffer.h"
#include "memory/room.h"
#include "stats/stats.h"

namespace farwrite::plugin {
namespace {

std::atomic<std::uint64_t> copies_now{0};
std::atomic<std::uint64_t> bytes_now{0};
std::atomic<bool (*)()> release_more{nullptr};

// Whether there was something to let go of.
bool release_held() {
  const bool received = ReceivedBuffer::release_copies();
  bool (*const release)() = release_more.load();
  return (release != nullptr && release()) || received;
}

}  // namespace

Staged stage(fw_device* device, const void* data, std::uint64_t bytes) {
  void* memory = nullptr;
  Staged staged = stage_room(device, bytes, &memory);
  if (staged != nullptr) fw_copy(memory, data, bytes);
  return staged;
}

Staged stage_room(fw_device* device, std::uint64_t bytes, void** memory) {
  Staged staged = registered_room(device, bytes, memory);
  if (staged == nullptr) return nullptr;
  count(stats().copies);
  count(stats().bytes_copied, bytes);
  return staged;
}

Staged registered_room(fw_device* device, std::uint64_t bytes, void** memory) {
  *memory = fw_device_allocate(device, bytes);
  if (*memory == nullptr && release_held()) *memory = fw_device_allocate(device, bytes);
  if (*memory == nullptr) return nullptr;
  return {*memory, [device](void* owned) { fw_device_deallocate(device, owned); }};
}

void release_when_short(bool (*release)()) { release_more.store(release); }

bool may_hold(fw_device* device, std::uint64_t bytes) {
  fw_memory_stats memory{};
  memory.struct_size = sizeof(memory);
  fw_device_memory(device, &memory);
  return bytes_now.load() + bytes <= memory.limit / 2;
}

Staged hold(Staged staged, std::uint64_t bytes) {
  copies_now.fetch_add(1);
  bytes_now.fetch_add(bytes);
  const void* const memory = staged.get();
  return {memory, [owner = std::move(staged), bytes](const void*) mutable {
            owner.reset();
            copies_now.fetch_sub(1);
            bytes_now.fetch_sub(bytes);
            Room::came_back();
          }};
}

std::uint64_t held_copies() { return copies_now.load(); }

std::uint64_t held_copy_bytes() { return bytes_now.load(); }

}  // namespace farwrite::plugin
