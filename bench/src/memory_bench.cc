#include "memory_bench.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "clock.h"
#include "farwrite/farwrite.h"
#include "raw_limits.h"
#include "stage.h"

namespace farwrite::bench {
namespace {

constexpr std::uint64_t kPageBytes = 4096;
constexpr ErrorContext kWhere{.operation = "bench memory", .peer = {}, .fabric = {}};

void touch_pages(std::byte* data, std::uint64_t bytes) {
  // volatile, because the compiler removes stores to malloc's memory that is freed without a read.
  for (std::uint64_t at = 0; at < bytes; at += kPageBytes) {
    *reinterpret_cast<volatile std::byte*>(data + at) = std::byte{1};
  }
}

// xorshift64: the same sequence of sizes for every allocator.
class Sizes {
 public:
  Sizes(const AllocationPlan& plan, std::uint64_t seed)
      : min_(plan.min_bytes),
        doublings_(std::bit_width(plan.max_bytes / plan.min_bytes) - 1),
        state_(seed * 0x9e3779b97f4a7c15 + 1) {}
  std::uint64_t random() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  std::uint64_t next() {
    const std::uint64_t low = min_ << (doublings_ == 0 ? 0 : random() % doublings_);
    return doublings_ == 0 ? low : low + random() % low;
  }

 private:
  std::uint64_t min_;
  std::uint64_t doublings_;
  std::uint64_t state_;
};

class MallocBlocks {
 public:
  explicit MallocBlocks(std::uint32_t held) : blocks_(held) {}
  ~MallocBlocks() {
    for (void* block : blocks_) std::free(block);
  }
  MallocBlocks(const MallocBlocks&) = delete;
  MallocBlocks& operator=(const MallocBlocks&) = delete;

  Status replace(std::uint64_t index, std::uint64_t bytes, bool touch) {
    std::free(blocks_[index]);
    void* block = std::malloc(bytes);
    // Without this the compiler removes the pair of calls.
    asm volatile("" : "+r"(block) : : "memory");
    blocks_[index] = block;
    if (block == nullptr) {
      return Status::error(StatusCode::kResourceExhausted, kWhere, "malloc returned no memory",
                           "free some memory");
    }
    if (touch) touch_pages(static_cast<std::byte*>(block), bytes);
    return Status();
  }

 private:
  std::vector<void*> blocks_;
};

class DeviceBlocks {
 public:
  DeviceBlocks(Device& device, std::uint32_t held) : device_(device), blocks_(held) {}

  Status replace(std::uint64_t index, std::uint64_t bytes, bool touch) {
    blocks_[index] = {};
    auto region = device_.allocate(bytes);
    if (!region.ok()) return region.status();
    if (touch) touch_pages(region->data(), bytes);
    blocks_[index] = std::move(region).value();
    return Status();
  }

 private:
  Device& device_;
  std::vector<MemoryRegion> blocks_;
};

// Runs the plan in all threads; `make_blocks` makes the blocks of each thread.
template <typename MakeBlocks>
Result<double> time_threads(const AllocationPlan& plan, const MakeBlocks& make_blocks) {
  std::atomic<std::uint32_t> ready{0};
  std::mutex mutex;
  Status failure;
  double total_seconds = 0;
  const auto body = [&](std::uint32_t thread) {
    auto blocks = make_blocks();
    Sizes sizes(plan, thread + 1);
    const auto run = [&](std::uint64_t operations) -> Status {
      for (std::uint64_t i = 0; i < operations; ++i) {
        const std::uint64_t index = sizes.random() % plan.held;
        FARWRITE_RETURN_IF_ERROR(blocks.replace(index, sizes.next(), plan.touch));
      }
      return Status();
    };
    Status status = run(plan.operations / 4);
    ready.fetch_add(1);
    while (ready.load() < plan.threads) std::this_thread::yield();
    const Clock::time_point start = Clock::now();
    if (status.ok()) status = run(plan.operations);
    const double seconds = seconds_since(start);
    const std::lock_guard lock(mutex);
    total_seconds += seconds;
    if (!status.ok()) failure = std::move(status);
  };
  std::vector<std::thread> threads;
  for (std::uint32_t thread = 0; thread < plan.threads; ++thread)
    threads.emplace_back(body, thread);
  for (std::thread& thread : threads) thread.join();
  if (!failure.ok()) return failure;
  return total_seconds * 1e9 / static_cast<double>(plan.threads * plan.operations);
}

// Maps and populates `bytes` of a new memfd.
Result<std::byte*> map_memfd(std::uint64_t bytes) {
  const int fd = ::memfd_create("farwrite-bench", MFD_CLOEXEC);
  if (fd < 0 || ::ftruncate(fd, static_cast<off_t>(bytes)) != 0) {
    return Status::system_error(StatusCode::kResourceExhausted, kWhere,
                                "the memfd cannot be created", errno, "free some memory");
  }
  auto base = map_populated(fd, bytes);
  ::close(fd);
  return base;
}

}  // namespace

void tune_malloc() {
  ::mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the maximum of glibc
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_TOP_PAD, 64 << 20);
}

Result<double> time_allocations(Allocator allocator, const AllocationPlan& plan) {
  if (plan.threads == 0 || plan.held == 0 || plan.operations == 0 || plan.min_bytes == 0 ||
      plan.max_bytes < plan.min_bytes) {
    return Status::error(StatusCode::kInvalidArgument, kWhere, "the plan has no work",
                         "use positive counts, and min_bytes up to max_bytes");
  }
  if (allocator == Allocator::kMalloc) {
    return time_threads(plan, [&] { return MallocBlocks(plan.held); });
  }
  auto device = Device::open();
  if (!device.ok()) return device.status();
  return time_threads(plan, [&] { return DeviceBlocks(device.value(), plan.held); });
}

Result<FirstUseTimes> first_use_of_device(std::uint64_t bytes) {
  auto device = Device::open();
  if (!device.ok()) return device.status();
  FirstUseTimes times;
  Clock::time_point start = Clock::now();
  auto region = device->allocate(bytes);
  if (!region.ok()) return region.status();
  times.allocate_seconds = seconds_since(start);
  start = Clock::now();
  touch_pages(region->data(), bytes);
  times.touch_seconds = seconds_since(start);
  return times;
}

Result<FirstUseTimes> first_use_of_kernel(std::uint64_t bytes) {
  FirstUseTimes times;
  Clock::time_point start = Clock::now();
  auto base = map_memfd(bytes);
  if (!base.ok()) return base.status();
  times.allocate_seconds = seconds_since(start);
  start = Clock::now();
  touch_pages(base.value(), bytes);
  times.touch_seconds = seconds_since(start);
  ::munmap(base.value(), bytes);
  return times;
}

Result<CopyBench> CopyBench::make(std::uint64_t pool_bytes) {
  auto base = map_memfd(pool_bytes / 2 * 2);
  if (!base.ok()) return base.status();
  return CopyBench(base.value(), pool_bytes / 2);
}

CopyBench::CopyBench(CopyBench&& other) noexcept
    : base_(std::exchange(other.base_, nullptr)), half_(other.half_), at_(other.at_) {}

CopyBench::~CopyBench() {
  if (base_ != nullptr) ::munmap(base_, half_ * 2);
}

Result<double> CopyBench::rate(std::string_view kernel, std::uint64_t size, double seconds) {
  if (size == 0 || size > half_) {
    return Status::error(
        StatusCode::kInvalidArgument, kWhere,
        "a copy of " + std::to_string(size) + " bytes in a pool of " + std::to_string(half_ * 2),
        "use a smaller size or a larger pool");
  }
  auto function = find_kernel(kernel);
  if (!function.ok()) return function.status();
  std::uint64_t copied = 0;
  const Clock::time_point start = Clock::now();
  // A clock read costs as much as a small copy, so the loop reads the clock once per MiB.
  for (std::uint64_t next_look = 0;;) {
    if (at_ + size > half_) at_ = 0;
    function.value()(base_ + half_ + at_, base_ + at_, size);
    at_ += size;
    copied += size;
    if (copied < next_look) continue;
    next_look = copied + (std::uint64_t{1} << 20);
    const double elapsed = seconds_since(start);
    if (elapsed >= seconds) return static_cast<double>(copied) / elapsed / 1e9;
  }
}

}  // namespace farwrite::bench
