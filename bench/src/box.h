// The loops of `bench box`: small one-sided reads, and the limit of accumulation.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "farwrite/options.h"
#include "farwrite/status.h"

namespace farwrite::bench {

struct BoxReads {
  std::string endpoint;  // of the server
  FabricKind fabric = FabricKind::kShm;
  std::uint64_t bytes = 1024;   // of one read, which is the whole segment
  std::uint64_t reads = 10000;  // that are timed, one at a time
  std::chrono::nanoseconds spin = std::chrono::seconds(1);  // how long a wait polls
};

// The bytes of a plain socket's request, and of its answer.
struct SocketRequests {
  std::uint64_t request = 0;
  std::uint64_t answer = 0;
};

// Connects to the box, creates a segment, and returns the microseconds of each read. In C++,
// because a call from Python costs as much as the read.
Result<std::vector<double>> time_box_reads(const BoxReads& plan);

// Answers what the other end of the connected TCP socket asks for, until that closes. Blocks.
Status answer_requests(int socket, const SocketRequests& requests);
// The other end: the microseconds of each round trip. Blocks.
Result<std::vector<double>> time_requests(int socket, const SocketRequests& requests,
                                          std::uint64_t times);

// destination += source without a box, as a compiler vectorizes the plain loop, in `threads` equal
// parts.
void add_in_place(float* destination, const float* source, std::uint64_t elements,
                  std::uint32_t threads);

}  // namespace farwrite::bench
