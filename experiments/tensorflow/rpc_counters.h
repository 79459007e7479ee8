// RpcCounters: what rpc-over-fabric has done in this process.
#pragma once

#include <atomic>
#include <cstdint>

namespace farwrite::experiments {

struct RpcCounters {
  std::atomic<std::uint64_t> requests{0};  // RecvTensor requests sent
  std::atomic<std::uint64_t> served{0};    // answered with a tensor
  // Passes of this process' processor over a tensor: into a ring of shared memory, out of the ring,
  // and, of small tensors and those that are no plain bytes, into and out of a buffer.
  std::atomic<std::uint64_t> copies{0};
  std::atomic<std::uint64_t> bytes_sent{0};      // of encoded tensors
  std::atomic<std::uint64_t> bytes_received{0};  // of encoded tensors
  std::atomic<std::uint64_t> grpc_recv_tensor_calls{0};

  static RpcCounters& of_process() {
    static auto* const only = new RpcCounters;  // outlives every thread
    return *only;
  }
  static void add(std::atomic<std::uint64_t>& counter, std::uint64_t more = 1) {
    counter.fetch_add(more, std::memory_order_relaxed);
  }
};

}  // namespace farwrite::experiments
