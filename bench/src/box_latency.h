// Times small one-sided reads from a box, in C++: a call from Python costs as much as the read.
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

// Connects to the box, creates a segment, and returns the microseconds of each read.
Result<std::vector<double>> time_box_reads(const BoxReads& plan);

}  // namespace farwrite::bench
