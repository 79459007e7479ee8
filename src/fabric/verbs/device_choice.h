// Which RDMA device, port and address a fabric uses, and the options that decide it.
//
// rdma_cm names everything by IP addresses: an address of an interface that belongs to an RDMA
// device (RoCE, iWARP, or IPoIB) names device, port and GID.
#pragma once

#include <infiniband/verbs.h>
#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fabric/verbs/verbs_library.h"
#include "farwrite/options.h"
#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

// What the fabric is told: the user's settings, and the device's place among the fabrics.
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

// One way to be reached, and what its device can do.
struct RdmaAddress {
  sockaddr_storage address{};
  std::string host;                // "10.9.0.1"
  ibv_context* context = nullptr;  // of get_devices(), for as long as those are open
  std::string device;              // "rxe0"
  std::uint8_t port = 0;
  int gid_index = -1;     // -1 if the port's table has no such address (IPoIB)
  std::string transport;  // "RoCE v2", "RoCE v1", "InfiniBand", "iWARP"; "RoCE" without a GID
  bool iwarp = false;
  std::uint32_t mtu = 0;                // bytes of the active path MTU
  std::uint64_t max_message_bytes = 0;  // of the port: one work request
  ibv_device_attr limits{};             // of the device
};

// All that fit `options`, best first: active ports, IPv4 RoCE v2, then other RoCE v2 (link-local
// last), InfiniBand, iWARP, RoCE v1; among equals the faster port. kUnavailable if there is none:
// the sentence names every device and why it does not do (no device, port down, no address, no such
// name). Code that uses the contexts holds get_devices() before and meanwhile.
Result<std::vector<RdmaAddress>> choose_addresses(VerbsLibrary& library,
                                                  const FabricOptions& options);

// One line for `farwrite info`: "rxe0 port 1, RoCE v2, GID 1 (10.9.0.1), MTU 4096".
std::string describe(const RdmaAddress& address);

}  // namespace farwrite::fabric::verbs
