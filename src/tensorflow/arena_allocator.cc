#include "arena_allocator.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>

#include "stats.h"
#include "tensorflow/core/framework/allocator.h"
#include "tensorflow/core/framework/allocator_registry.h"
#include "tensorflow/core/platform/logging.h"
#include "tensorflow/core/platform/mem.h"

namespace farwrite::plugin {
namespace {

namespace tf = ::tensorflow;

constexpr int kPriority = 1000;  // TensorFlow's own are at most 200
constexpr std::size_t kMaxDevices = 8;

enum class Policy { kUnified, kOff, kLate };
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

class Unified final : public tf::Allocator {
 public:
  std::string Name() override { return "farwrite_cpu"; }

  void* AllocateRaw(std::size_t alignment, std::size_t bytes) override {
    if (bytes > ArenaAllocator::kThreshold && alignment <= kAllocatorAlignment) {
      fw_device* const device = current.load(std::memory_order_acquire);
      if (device != nullptr) {
        void* const block = fw_device_allocate(device, bytes);
        if (block != nullptr) return block;
        count(stats().arena_refusals);
      }
    }
    return tf::port::AlignedMalloc(bytes, static_cast<std::align_val_t>(alignment));
  }

  void DeallocateRaw(void* block) override {
    fw_device* const device = owner_of(block);
    if (device == nullptr) {
      tf::port::AlignedFree(block);
    } else {
      fw_device_deallocate(device, block);
    }
  }

  tf::AllocatorMemoryType GetMemoryType() const override {
    return tf::AllocatorMemoryType::kHostPageable;
  }
};

// What pools that ask for whole regions get: as TensorFlow's own does, plain memory.
class PlainRegions final : public tf::SubAllocator {
 public:
  PlainRegions() : tf::SubAllocator({}, {}) {}
  void* Alloc(std::size_t alignment, std::size_t bytes, std::size_t* received) override {
    *received = bytes;
    if (bytes == 0) return nullptr;
    return tf::port::AlignedMalloc(bytes, static_cast<std::align_val_t>(alignment));
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
  tf::Allocator* CreateAllocator() override { return new Unified; }
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
  const char* const wanted = std::getenv("FARWRITE_TF_ALLOCATION");
  if (wanted != nullptr && std::strcmp(wanted, "off") == 0) return;
  if (wanted != nullptr && wanted[0] != '\0' && std::strcmp(wanted, "unified") != 0) {
    LOG(WARNING) << "Farwrite: FARWRITE_TF_ALLOCATION=" << wanted
                 << " is not known; say unified or off. Taking unified.";
  }
  tsl::AllocatorFactoryRegistry& registry = *tsl::AllocatorFactoryRegistry::singleton();
  if (AllocationSeen(registry)) {
    policy_now = Policy::kLate;
    LOG(WARNING) << "Farwrite: loaded after TensorFlow's first allocation, so large tensors are "
                    "copied once when they are sent; import farwrite.tensorflow before anything "
                    "makes a tensor";
    return;
  }
  registry.Register(__FILE__, __LINE__, "farwrite", kPriority, new Factory);
  policy_now = Policy::kUnified;
}

void ArenaAllocator::use(fw_device* device) {
  for (auto& slot : devices) {
    fw_device* empty = nullptr;
    if (slot.compare_exchange_strong(empty, device)) {
      current.store(device, std::memory_order_release);
      return;
    }
  }
}

std::string ArenaAllocator::policy() {
  switch (policy_now.load()) {
    case Policy::kUnified:
      return "unified";
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
      return "large tensors are allocated in registered memory";
    case Policy::kOff:
      return "FARWRITE_TF_ALLOCATION=off";
    case Policy::kLate:
      return "the plug-in was loaded after TensorFlow's first allocation";
  }
  return "";
}

}  // namespace farwrite::plugin
