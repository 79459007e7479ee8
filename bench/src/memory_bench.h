// Measures the costs of memory: allocation, first use and copies. Each is compared with the same
// work of the C library or the kernel.
#pragma once

#include <cstdint>
#include <string_view>

#include "farwrite/status.h"

namespace farwrite::bench {

enum class Allocator : std::uint8_t { kFarwrite, kMalloc };

struct AllocationPlan {
  std::uint32_t threads = 4;
  std::uint64_t operations = 20000;  // pairs of allocate and free per thread, after a warm-up
  std::uint32_t held = 4;            // blocks of each thread, which replaces a random one
  std::uint64_t min_bytes = std::uint64_t{64} << 10;
  std::uint64_t max_bytes = std::uint64_t{16}
                            << 20;  // sizes are spread evenly over the powers of 2
  bool touch = false;               // write a word into every 4 KiB of the new block
};

// Returns the nanoseconds per pair of allocate and free and thread, in the steady state. kFarwrite
// uses Device::allocate of the public API.
Result<double> time_allocations(Allocator allocator, const AllocationPlan& plan);

// Tunes malloc for large blocks, for the rest of this process: no mmap per block, and no memory
// returned to the kernel.
void tune_malloc();

struct FirstUseTimes {
  double allocate_seconds = 0;  // until the allocation returns
  double touch_seconds = 0;     // for writing a word into every 4 KiB
};

// Measures a new device's first region of `bytes`.
Result<FirstUseTimes> first_use_of_device(std::uint64_t bytes);
// Measures a memfd of `bytes` that is mapped, advised and populated like Farwrite's segments.
Result<FirstUseTimes> first_use_of_kernel(std::uint64_t bytes);

// Measures the bytes per nanosecond (GB/s) of one copy kernel at `size` for about `seconds`. The
// copies rotate over two buffers of `pool_bytes` / 2 each.
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
