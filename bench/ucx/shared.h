// Shared: one mapping in which the two processes of the UCX program meet.
#pragma once

#include <sys/mman.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <new>
#include <stdexcept>

#include "clock.h"

namespace farwrite::bench::ucx {

inline constexpr std::size_t kMaxSamples = 4096;

enum class Way : std::uint32_t { kTag, kPutFlag };

// One loop that both processes run. Each parses it from its own input.
struct Order {
  Way way = Way::kTag;
  bool latency = false;  // one transfer at a time, else `window` under way
  std::uint64_t size = 8;
  std::uint64_t transfers = 1;
  std::uint32_t window = 1;
  std::uint32_t seed = 0;
};

// What one process measured.
struct Figures {
  double seconds = 0;
  double cpu_seconds = 0;
  std::uint64_t bad = 0;
  std::uint32_t samples = 0;
  std::array<double, kMaxSamples> samples_us;
};

// Bytes that one process tells the other: its worker's address, or a key to its memory.
struct Blob {
  std::uint64_t address = 0;
  std::array<std::byte, 4096> bytes;
};

struct Shared {
  alignas(128) std::atomic<std::uint32_t> arrivals;
  std::atomic<bool> over;  // a process has ended, or is about to
  Figures figures[2];      // the receiver's, the sender's
  Blob worker[2];
  Blob memory[2];
  std::array<std::int64_t, kMaxSamples> began;

  static Shared& make() {
    void* const base =
        ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED) throw std::runtime_error("no memory for the two processes to meet in");
    return *new (base) Shared;
  }

  // Waits for the other process, and calls `meanwhile` all the time.
  template <typename Meanwhile>
  void meet(Meanwhile meanwhile) {
    const std::uint32_t all = (arrivals.fetch_add(1) + 2) / 2 * 2;  // each meeting adds two
    const Deadline deadline(std::chrono::seconds(60));
    while (static_cast<std::int32_t>(arrivals.load() - all) < 0) {
      if (over.load() || deadline.expired()) throw std::runtime_error("the other process is gone");
      meanwhile();
      cpu_relax();
    }
  }
};

}  // namespace farwrite::bench::ucx
