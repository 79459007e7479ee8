// VerbsOptions: what a user may choose of the verbs fabric, with its default and its unit.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace farwrite::fabric::verbs {

class VerbsLibrary;

struct VerbsOptions {
  // Where to find peers: "" chooses by itself, IPv4-mapped RoCE v2 first (device_choice.h).
  std::string device;       // "mlx5_0"; its name in `ibv_devices`
  std::uint8_t port = 0;    // 1, 2, ...; 0 chooses
  int gid_index = -1;       // of that port's GID table; -1 chooses
  std::string listen_host;  // the device's own: an address of an RDMA device restricts to it
  std::uint16_t listen_port = 0;

  // Completion queues, one for each poller; lanes are spread over them round-robin.
  std::uint32_t completion_queues = 1;
  // Work requests that a lane may have under way; less if the device allows less.
  std::uint32_t send_queue_depth = 128;
  // Notifications and messages that a lane's peer may have sent and we have not taken.
  std::uint32_t receive_credits = 64;
  // One work request carries at most this many bytes; less if the port allows less.
  std::uint64_t chunk_bytes = std::uint64_t{1} << 30;
  // Every so many unsignalled requests one asks for its completion.
  std::uint32_t signal_every = 16;
  // Writes up to this many bytes travel inside their work request.
  std::uint32_t inline_bytes = 128;
  // How often the adapter repeats what is not acknowledged (0-7), and what met no receive (7: for
  // ever); see docs/rdma.md.
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;
  // Relaxed ordering of landing memory on PCIe. Unset: where the lowering allows it.
  std::optional<bool> relaxed_ordering;
  // Forces notifications to do without immediate data, as on iWARP.
  bool use_immediate = true;
  // Takes the adapter's word for granted that data lands in order. For tests of the tail flag.
  bool assume_data_in_order = false;

  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(5);
  // In place of the machine's libraries; for tests. Outlives the fabric.
  VerbsLibrary* library = nullptr;
};

}  // namespace farwrite::fabric::verbs
