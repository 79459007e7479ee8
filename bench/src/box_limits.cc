#include "box_limits.h"

#include <algorithm>
#include <thread>
#include <vector>

namespace farwrite::bench {
namespace {

// The build has no -march, so the loop is compiled once for each width and chosen when it is
// loaded.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FARWRITE_BENCH_WIDEST \
  __attribute__((target_clones("avx512f", "avx2", "default"), optimize("O3")))
#else
#define FARWRITE_BENCH_WIDEST
#endif

FARWRITE_BENCH_WIDEST void add_part(float* __restrict destination, const float* __restrict source,
                                    std::uint64_t elements) {
  for (std::uint64_t i = 0; i < elements; ++i) destination[i] += source[i];
}

}  // namespace

void add_in_place(float* destination, const float* source, std::uint64_t elements,
                  std::uint32_t threads) {
  const std::uint64_t part = elements / threads / 16 * 16;  // whole cache lines
  std::vector<std::thread> others;
  for (std::uint32_t i = 1; i < threads; ++i) {
    const std::uint64_t first = i * part;
    const std::uint64_t last = i + 1 == threads ? elements : first + part;
    others.emplace_back([=] { add_part(destination + first, source + first, last - first); });
  }
  add_part(destination, source, threads == 1 ? elements : part);
  for (std::thread& other : others) other.join();
}

}  // namespace farwrite::bench
