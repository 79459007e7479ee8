// What the verbs fabric is told: the user's settings, and the device's place among the fabrics.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "farwrite/options.h"

namespace farwrite::fabric::verbs {

struct FabricOptions : VerbsOptions {
  // As a device with these options uses it.
  static FabricOptions of(const DeviceOptions& device);

  // The device's own listening address. One of an RDMA device restricts the fabric to that;
  // "0.0.0.0" and loopback addresses do not.
  std::string listen_host;
  // Completion queues, one for each poller; lanes are spread over them round-robin.
  std::uint32_t completion_queues = 1;
  // Without leave to register this much memory at once there is no fabric.
  std::uint64_t must_register = 0;
};

}  // namespace farwrite::fabric::verbs
