// What several threads of one process write over shm. Each thread has its own channel. The peer is
// passive, so a thread needs one processor.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "farwrite/farwrite.h"

namespace farwrite::bench {

// Two devices with a channel for each thread. Thread-compatible.
class Threads {
 public:
  static Result<std::unique_ptr<Threads>> make(std::uint32_t channels, std::uint64_t max_bytes);

  // Starts `threads` threads. Each makes `times` writes of `bytes` on its own channel, and waits
  // for each write. Returns the seconds from the start of the last thread to the end of all.
  // bench/python/farwrite_bench/calls/threads.py makes the same calls.
  Result<double> seconds(std::uint64_t bytes, std::uint64_t times, std::uint32_t threads);

 private:
  struct Lane {
    Channel near;
    Channel far;
    MemoryRegion landing;
    RemoteRegion target;  // landing, seen by near
    std::vector<std::byte> source;
  };

  Threads() = default;
  Status open_lane(Lane& lane, std::uint64_t max_bytes);

  Device left_;
  Device right_;
  std::vector<Lane> lanes_;
};

}  // namespace farwrite::bench
