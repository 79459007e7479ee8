/// @file
/// DeviceOptions: every option of a device, with its default and its unit.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "farwrite/endpoint.h"
#include "farwrite/internal/namespace.h"
#include "farwrite/token.h"

FARWRITE_BEGIN

/// A transport for bytes. The numbers are part of the wire protocol: never renumber.
enum class FabricKind : std::uint8_t {
  kShm = 1,    ///< shared memory, peers on this host
  kTcp = 2,    ///< TCP, peers on any host
  kVerbs = 3,  ///< InfiniBand, RoCE, iWARP
  // 4 is reserved: the C++ tests bring a fabric of that number.
};

/// The name of the fabric: "shm".
inline std::string_view to_string(FabricKind kind) {
  switch (kind) {
    case FabricKind::kShm:
      return "shm";
    case FabricKind::kTcp:
      return "tcp";
    case FabricKind::kVerbs:
      return "verbs";
  }
  return "unknown fabric";
}
/// The fabric of that name. kInvalidArgument for any other text.
inline Result<FabricKind> parse_fabric(std::string_view name) {
  for (const FabricKind kind : {FabricKind::kShm, FabricKind::kTcp, FabricKind::kVerbs}) {
    if (name == to_string(kind)) return kind;
  }
  return Status::error(StatusCode::kInvalidArgument, {"choose a fabric"},
                       "\"" + std::string(name) + "\" is not a fabric",
                       "use one of shm, tcp, verbs");
}

/// Which huge pages back the segments of a device.
enum class HugePages : std::uint8_t {
  kOff,          ///< none: pages of the usual size
  kTransparent,  ///< madvise(MADV_HUGEPAGE) where the kernel allows it for shared memory
  kExplicit,     ///< hugetlbfs pages; an error if the machine has none reserved
};

#if defined(FARWRITE_LIBRARY)
namespace fabric::verbs {
class VerbsLibrary;  // src/fabric/verbs, another one in tests only
}  // namespace fabric::verbs
#endif

/// The settings of the verbs fabric. docs/how-to/rdma.md explains when to change one.
///
/// `device`, `port` and `gid_index` select the adapter. Empty, 0 and -1 select automatically, and
/// prefer IPv4-mapped RoCE v2.
struct VerbsOptions {
  std::string device;     ///< "mlx5_0", as `ibv_devices` names it
  std::uint8_t port = 0;  ///< 1, 2, ...
  int gid_index = -1;     ///< index into that port's GID table

  /// Work requests that a lane may have in flight; fewer if the adapter allows fewer.
  std::uint32_t send_queue_depth = 128;
  /// Notifications and messages that the peer may send on a lane before this side takes them.
  std::uint32_t receive_credits = 64;
  /// The most bytes that one work request carries; fewer if the port allows fewer.
  std::uint64_t chunk_bytes = std::uint64_t{1} << 30;
  /// Every n-th work request that would be unsignalled is signalled: it requests a completion.
  std::uint32_t signal_every = 16;
  /// Writes up to this many bytes are sent inline in their work request; fewer if the adapter
  /// allows fewer.
  std::uint32_t inline_bytes = 128;
  /// How often the adapter retries a request that is not acknowledged (0-7).
  std::uint8_t retry_count = 7;
  /// How often the adapter retries a request that found no posted receive (0-7, 7: forever).
  std::uint8_t rnr_retry_count = 7;
  /// Relaxed PCIe ordering of the memory that peers write. Unset: relaxed where the notification's
  /// lowering and the adapter allow it.
  std::optional<bool> relaxed_ordering;
  /// False: notifications without immediate data, as on iWARP (flush, then a message).
  bool use_immediate = true;
  /// Assumes that the data of a write lands in order. For tests of the tail flag.
  bool assume_data_in_order = false;

#if defined(FARWRITE_LIBRARY)
  /// @private Replaces the machine's libibverbs and librdmacm; not owned.
  fabric::verbs::VerbsLibrary* library = nullptr;
#endif
};

/// The settings of the tcp fabric.
struct TcpOptions {
  /// The port that the fabric listens on, at DeviceOptions::listen.host, from the device's start.
  /// With 0 it selects a free port when a peer first connects by this fabric. For firewalls.
  std::uint16_t data_port = 0;
};

/// The ports from `first` to `last`. {0, 0} is no range.
struct PortRange {
  std::uint16_t first = 0;  ///< 1 or more
  std::uint16_t last = 0;   ///< `first` or more

  /// Compares both ports.
  bool operator==(const PortRange& other) const {
    return first == other.first && last == other.last;
  }
  /// Compares both ports.
  bool operator!=(const PortRange& other) const { return !(*this == other); }
};

inline constexpr std::uint32_t kMaxPollers = 64;  ///< upper bound of DeviceOptions::pollers
inline constexpr std::uint32_t kMaxLanes = 64;    ///< upper bound of DeviceOptions::lanes
/// DeviceOptions::numa_node: prefer the node of the RDMA adapter.
inline constexpr int kNodeOfAdapter = -2;
/// Lower bound of each memory limit, in bytes.
inline constexpr std::uint64_t kMinMemoryLimit = std::uint64_t{2} << 20;

/// The options of Device::open().
struct DeviceOptions {
  /// The name of this device in its peers' messages, beside its endpoint: "/job:worker/task:1". Up
  /// to 255 bytes. Empty: messages show only the endpoint.
  std::string name;

  /// Where peers reach this device. Port 0 selects a free port; see Device::endpoint().
  Endpoint listen;
  /// The ports that port 0 selects from, for firewalls: here and in TcpOptions::data_port. Without
  /// a range, it selects an ephemeral port of a kind that programs which look for a free port with
  /// bind(2) get last.
  PortRange port_range;

  /// Fabrics that this device may use, best first. A single entry forces that fabric: a connection
  /// to a peer that cannot use it fails with an error that gives the reason, and never falls back.
  /// On a machine without an RDMA device, verbs is left out if the list has other fabrics, and a
  /// log line reports it.
  std::vector<FabricKind> fabrics = {FabricKind::kShm, FabricKind::kVerbs, FabricKind::kTcp};

  /// Number of poller threads. Each owns one completion queue (paper section 3.1).
  std::uint32_t pollers = 1;
  /// Lanes (queue pairs) per peer, spread over the pollers round-robin. A channel uses the smaller
  /// number of its two sides.
  std::uint32_t lanes = 1;
  /// How long a waiting thread polls before it blocks. It offers its processor to other threads
  /// meanwhile, and blocks at once where threads that compute share it.
  std::chrono::nanoseconds spin = std::chrono::microseconds(50);

  /// Memory that peers may read or alias, in bytes, all peers together. The total is taken in steps
  /// of kMinMemoryLimit.
  std::uint64_t send_limit = std::uint64_t{8} << 30;
  /// Memory that may be leased to one peer, in bytes.
  std::uint64_t send_limit_per_peer = std::uint64_t{8} << 30;
  /// Memory that peers may write, in bytes, all peers together. Sending and receiving have separate
  /// pools, so neither side can starve the other.
  std::uint64_t receive_limit = std::uint64_t{8} << 30;
  /// Memory that one peer may write, in bytes.
  std::uint64_t receive_limit_per_peer = std::uint64_t{8} << 30;
  /// Send memory grows by segments of this many bytes, or by one that fits a larger allocation.
  std::uint64_t segment_bytes = std::uint64_t{64} << 20;
  /// Segment size in bytes of the memory that one peer may write. It is smaller, because every peer
  /// has separate segments.
  std::uint64_t receive_segment_bytes = std::uint64_t{8} << 20;
  /// The huge pages of every segment.
  HugePages huge_pages = HugePages::kTransparent;
  /// Fault memory in when a segment is created, not at its first use (first use costs 5-12x).
  bool prefault = true;
  /// The NUMA node of segments. A node binds them there, and the device does not open if
  /// the kernel refuses it. -1 leaves placement to the kernel. kNodeOfAdapter prefers the node of
  /// the RDMA adapter that the verbs fabric uses; without verbs, on a machine with one node, or if
  /// the kernel refuses, it leaves placement to the kernel ("Towards Zero Copy Dataflows using
  /// RDMA", section 3).
  int numa_node = kNodeOfAdapter;

  /// Memory that was wholly free or unused for this long goes back to the system: a segment of the
  /// send memory, except for a first one of segment_bytes, and a peer's that is mapped here. One
  /// segment of each a second at most.
  std::chrono::nanoseconds memory_idle_time = std::chrono::seconds(60);

  /// A peer that sends nothing for this long is silent: quarantined, not dead. 10 ms or more.
  std::chrono::nanoseconds detection_time = std::chrono::seconds(5);
  /// Time limit of one connection's handshake, on either side; 100 ms or more.
  std::chrono::nanoseconds handshake_timeout = std::chrono::seconds(5);

  /// A peer counts as dead if the network brings no acknowledgement from its host for this long:
  /// the host or the route to it is down. A stopped process does not cause this, because its host
  /// still acknowledges. 1 s or more.
  std::chrono::nanoseconds host_timeout = std::chrono::seconds(60);

  /// How the verbs fabric uses the machine's adapters.
  VerbsOptions verbs;
  /// Where the tcp fabric listens.
  TcpOptions tcp;

  /// The secret that both sides of a channel must prove before any memory is exposed. The default
  /// is the cookie of this user, which is valid only on the loopback. A device at another address
  /// requires a token or Token::none().
  Token token;
  /// Encrypt the traffic of a channel that leaves this host, by TLS 1.3 with keys derived from
  /// `token`: the control connection from its first byte, and the lanes of tcp. Both sides must set
  /// it. shm is memory of this host and is not encrypted. The token must be set, here or by
  /// FARWRITE_TOKEN_FILE. Requires OpenSSL 3 (libssl.so.3) at run time; without it, Device::open
  /// fails with kUnavailable.
  bool encrypt = false;
};

FARWRITE_END
