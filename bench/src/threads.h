// What threads of one process write together: each has a channel of its own, over shm. The peer is
// passive, so each thread needs one processor.
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

  // Seconds in which each of the first `threads` channels has made `times` writes of `bytes`, each
  // with its wait, by a thread of its own: from the moment at which all threads are ready.
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
  Status connect(Lane& lane, std::uint64_t max_bytes);

  Device left_;
  Device right_;
  std::vector<Lane> lanes_;
};

}  // namespace farwrite::bench
