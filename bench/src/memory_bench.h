// What memory costs: allocating it, using it the first time, copying it. Each against what the C
// library or the kernel would take for the same.
#pragma once

#include <cstdint>
#include <string_view>

#include "farwrite/status.h"

namespace farwrite::bench {

enum class Allocator : std::uint8_t { kFarwrite, kMalloc };

struct AllocationPlan {
  std::uint32_t threads = 4;
  std::uint64_t operations = 20000;  // allocate + free pairs per thread, after a warm-up
  std::uint32_t held = 4;            // blocks that each thread holds; a random one is replaced
  std::uint64_t min_bytes = std::uint64_t{64} << 10;
  std::uint64_t max_bytes = std::uint64_t{16}
                            << 20;  // sizes are spread evenly over the powers of 2
  bool touch = false;               // write a word into every 4 KiB of the new block
};

// Nanoseconds per allocate + free pair and thread, in the steady state. kFarwrite goes through
// Device::allocate, which is the public API.
Result<double> time_allocations(Allocator allocator, const AllocationPlan& plan);

// Gives malloc its best settings for large blocks in this process, for good: no mmap per block,
// nothing handed back to the kernel.
void tune_malloc();

struct FirstUseTimes {
  double allocate_seconds = 0;  // until the memory is handed out
  double touch_seconds = 0;     // writing a word into every 4 KiB of it
};

// A device's first region of `bytes`.
Result<FirstUseTimes> first_use_of_device(std::uint64_t bytes);
// A memfd of `bytes`, mapped, advised and populated by the kernel, as Farwrite's segments are.
Result<FirstUseTimes> first_use_of_kernel(std::uint64_t bytes);

// Bytes per nanosecond (GB/s) of one copy kernel at `size`, over buffers of `pool_bytes` / 2 each,
// in turn, for about `seconds`.
class CopyBench {
 public:
  static Result<CopyBench> make(std::uint64_t pool_bytes);
  CopyBench(CopyBench&& other) noexcept;
  CopyBench& operator=(CopyBench&&) = delete;
  ~CopyBench();
  Result<double> rate(std::string_view kernel, std::uint64_t size, double seconds);

 private:
  CopyBench(std::byte* base, std::uint64_t half) : base_(base), half_(half) {}
  std::byte* base_;
  std::uint64_t half_;
  std::uint64_t at_ = 0;
};

}  // namespace farwrite::bench
