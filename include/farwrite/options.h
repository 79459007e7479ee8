// DeviceOptions: everything a user may choose, with its default and its unit.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "farwrite/endpoint.h"
#include "farwrite/token.h"

namespace farwrite {

// A way to move bytes. The numbers are part of the wire protocol: never renumber.
enum class FabricKind : std::uint8_t {
  kShm = 1,        // shared memory, peers on this host
  kTcp = 2,        // TCP, peers anywhere
  kVerbs = 3,      // InfiniBand, RoCE, iWARP
  kSimulated = 4,  // in-process adversary, for tests
};

FARWRITE_API std::string_view to_string(FabricKind kind);
FARWRITE_API Result<FabricKind> parse_fabric(std::string_view name);

enum class HugePages : std::uint8_t {
  kOff,
  kTransparent,  // madvise(MADV_HUGEPAGE) where the kernel allows it for shared memory
  kExplicit,     // hugetlbfs pages; an error if the machine has none reserved
};

namespace fabric {
class SimulatedNetwork;  // src/fabric/simulated, tests only
namespace verbs {
class VerbsLibrary;  // src/fabric/verbs, another one in tests only
}
}  // namespace fabric

// The verbs fabric's own settings; docs/how-to/rdma.md says when to change one.
struct VerbsOptions {
  // Which adapter: empty, 0 and -1 choose by themselves, IPv4-mapped RoCE v2 first.
  std::string device;     // "mlx5_0", as `ibv_devices` names it
  std::uint8_t port = 0;  // 1, 2, ...
  int gid_index = -1;     // of that port's GID table

  // Work requests that a lane may have under way; fewer if the adapter allows fewer.
  std::uint32_t send_queue_depth = 128;
  // Notifications and messages that the peer may have sent on a lane before we take them.
  std::uint32_t receive_credits = 64;
  // The most bytes that one work request carries; fewer if the port allows fewer.
  std::uint64_t chunk_bytes = std::uint64_t{1} << 30;
  // Of unsignalled work requests, every so many asks for its completion.
  std::uint32_t signal_every = 16;
  // Writes up to this many bytes travel inside their work request; fewer if the adapter says so.
  std::uint32_t inline_bytes = 128;
  // How often the adapter repeats what nobody acknowledges (0-7), and what met no receive (0-7, 7:
  // for ever).
  std::uint8_t retry_count = 7;
  std::uint8_t rnr_retry_count = 7;
  // Relaxed PCIe ordering of the memory that peers write. Unset: where the notification's lowering
  // and the adapter allow it.
  std::optional<bool> relaxed_ordering;
  // False: notifications without immediate data, as on iWARP (flush, then a message).
  bool use_immediate = true;
  // Takes it for granted that a write's data lands in order. For tests of the tail flag.
  bool assume_data_in_order = false;

  // In place of the machine's libibverbs and librdmacm; not owned.
  fabric::verbs::VerbsLibrary* library = nullptr;
};

// Sets those that `text` names: "device=mlx5_0,gid_index=3,relaxed_ordering=off,chunk_bytes=64M".
// kInvalidArgument says what is wrong with which, and sets none.
FARWRITE_API Status set_verbs_options(std::string_view text, VerbsOptions& options);

// Bounds of `pollers` and `lanes` below, and of each memory limit, in bytes.
inline constexpr std::uint32_t kMostPollers = 64;
inline constexpr std::uint32_t kMostLanes = 64;
inline constexpr std::uint64_t kLeastMemoryLimit = std::uint64_t{2} << 20;

struct DeviceOptions {
  // What peers call this device in their messages, beside its endpoint: "/job:worker/task:1". Up to
  // 255 bytes; empty: its endpoint alone.
  std::string name;

  // Where peers reach this device. Port 0 picks a free one; see Device::endpoint().
  Endpoint listen;

  // Fabrics this device may use, best first. One entry forces it: connecting to a peer that cannot
  // use it is an error that says why, never a silent fallback. Verbs beside others is left out, and
  // that is logged, on a machine without an RDMA device.
  std::vector<FabricKind> fabrics = {FabricKind::kShm, FabricKind::kVerbs, FabricKind::kTcp};

  // Poller threads, each the owner of one completion queue (paper section 3.1).
  std::uint32_t pollers = 1;
  // Lanes (queue pairs) per peer, spread over the pollers round-robin. Both sides use the smaller.
  std::uint32_t lanes = 1;
  // A waiting thread polls this long before it blocks.
  std::chrono::nanoseconds spin = std::chrono::microseconds(20);

  // Memory that peers may read or alias, in bytes, all peers together and leased to one peer. All
  // peers together take it in steps of kLeastMemoryLimit.
  std::uint64_t send_limit = std::uint64_t{8} << 30;
  std::uint64_t send_limit_per_peer = std::uint64_t{8} << 30;
  // Memory that peers may write, in bytes, all peers together and per peer. Sending and receiving
  // never compete for one pool, so neither side can starve the other.
  std::uint64_t receive_limit = std::uint64_t{8} << 30;
  std::uint64_t receive_limit_per_peer = std::uint64_t{8} << 30;
  // Send memory grows by segments of this many bytes, or by one that fits a larger allocation.
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
  // The same for the memory that one peer may write; smaller, because every peer has its own.
  std::uint64_t receive_segment_bytes = std::uint64_t{8} << 20;
  HugePages huge_pages = HugePages::kTransparent;
  // Fault memory in when a segment is made, not at its first use (first use costs 5-12x).
  bool prefault = true;
  // Bind segments to this NUMA node; -1 leaves placement to the kernel.
  int numa_node = -1;

  // A peer that says nothing for this long is silent: quarantined, not dead.
  std::chrono::nanoseconds detection_time = std::chrono::seconds(5);
  // Bound on one connection's handshake, from either side.
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(5);

  // Where the tcp fabric listens, on listen.host; 0 picks a free port. For firewalls.
  std::uint16_t data_port = 0;
  // A connection over which the network brings no acknowledgement for this long is given up, and
  // the peer behind it counts as dead: its host or the way there has gone. A stopped process does
  // not: its host still answers.
  std::chrono::nanoseconds host_timeout = std::chrono::seconds(60);

  // What the verbs fabric uses of the machine's adapters.
  VerbsOptions verbs;

  // What both sides of a channel must prove before any memory is exposed. By default the cookie of
  // this user, on the loopback alone: at other addresses it must be set, or Token::none().
  Token token;
  // Encrypt whatever of a channel leaves this host, by TLS 1.3 under keys made from `token`, which
  // must be set, here or by FARWRITE_TOKEN_FILE: the control connection from its first byte, and
  // the lanes of tcp. Both sides must set it. shm is memory of this host and stays as it is. Needs
  // OpenSSL 3 (libssl.so.3) at run time; without it, Device::open fails with kUnavailable.
  bool encrypt = false;

  // The network a simulated fabric lives in; ignored by every other fabric. Not owned.
  fabric::SimulatedNetwork* simulated_network = nullptr;
};

}  // namespace farwrite
