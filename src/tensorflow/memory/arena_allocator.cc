#include "memory/arena_allocator.h"

#include <array>
#include <atomic>
#include <string>

#include "base/options.h"
#include "memory/allocation_sites.h"
#include "memory/room.h"
#include "stats/stats.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/allocator_registry.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/platform/mem.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

constexpr int kAllocatorPriority = 1000;  // TensorFlow's own are at most 200
constexpr std::size_t kMaxDevices = 8;

enum class Policy { kUnified, kTraced, kOff, kLate };
std::atomic<Policy> policy_now{Policy::kOff};

// Devices that blocks may lie in: this process' own, and before it those of the processes it was
// forked from. Only added to.
std::array<std::atomic<fw_device*>, kMaxDevices> devices{};
std::atomic<fw_device*> current{nullptr};

fw_device* owner_of(const void* block) {
  for (const auto& slot : devices) {
    fw_device* const device = slot.load(std::memory_order_acquire);
    if (device == nullptr) return nullptr;
    if (fw_device_contains(device, block) != 0) return device;
  }
  return nullptr;
}

void* plain_block(std::size_t alignment, std::size_t bytes) {
  return tf::port::AlignedMalloc(bytes, static_cast<std::align_val_t>(alignment));
}

class RegisteredFirst final : public tf::Allocator {
 public:
  // Without `sites` every large block is registered memory.
  explicit RegisteredFirst(AllocationSites* sites) : sites_(sites) {}

  std::string Name() override { return "farwrite_cpu"; }

  void* AllocateRaw(std::size_t alignment, std::size_t bytes) override {
    fw_device* const device = bytes > ArenaAllocator::kThreshold && alignment <= kAllocatorAlignment
                                  ? current.load(std::memory_order_acquire)
                                  : nullptr;
    if (device == nullptr) return plain_block(alignment, bytes);
    AllocationSites::Site site = AllocationSites::kUnknown;
    if (sites_ != nullptr) {
      site = sites_->current();
      if (!sites_->sent(site)) {
        void* const block = plain_block(alignment, bytes);
        sites_->remember(block, site);
        return block;
      }
    }
    void* const block = fw_device_allocate(device, bytes);
    if (block != nullptr) return block;
    count(stats().arena_refusals);
    return plain_block(alignment, bytes);
  }

  void DeallocateRaw(void* block) override {
    fw_device* const device = owner_of(block);
    if (device == nullptr) {
      if (sites_ != nullptr) sites_->forget(block);  // first: the address is another owner's then
      tf::port::AlignedFree(block);
    } else {
      fw_device_deallocate(device, block);
      Room::came_back();
    }
  }

  tf::AllocatorMemoryType GetMemoryType() const override {
    return tf::AllocatorMemoryType::kHostPageable;
  }

 private:
  AllocationSites* const sites_;
};

// What pools that ask for whole regions get: as TensorFlow's own does, plain memory.
class PlainRegions final : public tf::SubAllocator {
 public:
  PlainRegions() : tf::SubAllocator({}, {}) {}
  void* Alloc(std::size_t alignment, std::size_t bytes, std::size_t* received) override {
    *received = bytes;
    return bytes == 0 ? nullptr : plain_block(alignment, bytes);
  }
  void Free(void* region, std::size_t bytes) override {
    if (bytes > 0) tf::port::AlignedFree(region);
  }
  bool SupportsCoalescing() const override { return false; }
  tf::AllocatorMemoryType GetMemoryType() const override {
    return tf::AllocatorMemoryType::kHostPageable;
  }
};

class Factory final : public tsl::AllocatorFactory {
 public:
  tf::Allocator* CreateAllocator() override {
    const bool traced = policy_now.load() == Policy::kTraced;
    return new RegisteredFirst(traced ? &AllocationSites::of_process() : nullptr);
  }
  tf::SubAllocator* CreateSubAllocator(int) override { return new PlainRegions; }
};

// Registering after the first allocation aborts the process, and only this private flag tells
// whether there was one. An explicit instantiation may name it.
bool AllocationSeen(const tsl::AllocatorFactoryRegistry& registry);
template <bool tsl::AllocatorFactoryRegistry::* flag>
struct ReadFlag {
  friend bool AllocationSeen(const tsl::AllocatorFactoryRegistry& registry) {
    return registry.*flag;
  }
};
template struct ReadFlag<&tsl::AllocatorFactoryRegistry::first_alloc_made_>;

}  // namespace

void ArenaAllocator::install() {
  if (options().allocation == "off") return;
  tsl::AllocatorFactoryRegistry& registry = *tsl::AllocatorFactoryRegistry::singleton();
  if (AllocationSeen(registry)) {
    policy_now = Policy::kLate;
    LOG(WARNING)
        << "Farwrite: loaded after TensorFlow's first allocation, so large tensors are copied once "
           "when they are sent; import farwrite.tensorflow before any code creates a tensor";
    return;
  }
  // First: the factory asks for it.
  policy_now = options().allocation == "traced" ? Policy::kTraced : Policy::kUnified;
  registry.Register(__FILE__, __LINE__, "farwrite", kAllocatorPriority, new Factory);
}

void ArenaAllocator::use(fw_device* device) {
  for (auto& slot : devices) {
    fw_device* empty = nullptr;
    if (slot.compare_exchange_strong(empty, device)) {
      current.store(device, std::memory_order_release);
      if (traced()) AllocationSites::of_process().trace();
      return;
    }
  }
}

bool ArenaAllocator::traced() {
  return policy_now.load(std::memory_order_relaxed) == Policy::kTraced &&
         current.load(std::memory_order_relaxed) != nullptr;
}

std::string ArenaAllocator::policy() {
  switch (policy_now.load()) {
    case Policy::kUnified:
      return "unified";
    case Policy::kTraced:
      return "traced";
    case Policy::kOff:
      return "off";
    case Policy::kLate:
      return "late";
  }
  return "";
}

std::string ArenaAllocator::reason() {
  switch (policy_now.load()) {
    case Policy::kUnified:
      return "";
    case Policy::kTraced:
      return "large tensors that are sent are allocated in registered memory, once traced";
    case Policy::kOff:
      return "FARWRITE_TF_ALLOCATION=off";
    case Policy::kLate:
      return "the plug-in was loaded after TensorFlow's first allocation";
  }
  return "";
}

std::string ArenaAllocator::why_outside() {
  if (policy_now.load() != Policy::kUnified) return reason();
  return "when registered memory was full, before the first server, or not as a tensor on a CPU";
}

}  // namespace farwrite::plugin
