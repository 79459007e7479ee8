// What a software RNIC looks like and how its wire behaves.
#pragma once

#include <infiniband/verbs.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace farwrite::verbs_double {

enum class Transport { kRoce, kInfiniBand, kIwarp };

// A row of a port's GID table.
struct GidOptions {
  std::string address;  // "fe80::1", "10.9.0.1" (becomes ::ffff:10.9.0.1)
  ibv_gid_type type = IBV_GID_TYPE_ROCE_V2;
};

struct PortOptions {
  std::string address = "127.0.0.1";  // of the interface; empty for none
  ibv_port_state state = IBV_PORT_ACTIVE;
  ibv_mtu active_mtu = IBV_MTU_4096;
  std::uint32_t max_msg_sz = 8 << 20;
  // Unset: what the transport's drivers show. RoCE: link-local and mapped, each as v1 and v2.
  std::optional<std::vector<GidOptions>> gids = std::nullopt;
};

// One device.
struct RnicOptions {
  std::string name = "soft0";
  Transport transport = Transport::kRoce;
  std::vector<PortOptions> ports = {PortOptions{}};
  std::uint64_t max_mr_size = std::uint64_t{1} << 40;
  int max_mr = 1 << 20;
  int max_qp = 1 << 16;
  int max_cq = 1 << 16;
  int max_qp_wr = 1 << 14;
  int max_cqe = 1 << 20;
  int max_sge = 4;
  int max_sge_rd = 4;
  int max_qp_rd_atom = 16;
  int max_qp_init_rd_atom = 16;
  std::uint32_t max_inline_data = 256;
  bool supports_immediate = true;
  bool supports_atomics = true;
  // The answer of ibv_query_qp_data_in_order, which the device keeps.
  bool data_in_order = false;
  // A write completes once its data has left the source, before it lands (iWARP over TCP).
  bool completes_early = false;
};

// All devices of one double.
struct WireOptions {
  std::uint64_t seed = 0;
  // The packets of one write land in any order; what notifies comes last. Not where data_in_order
  // is promised, unless the target is registered for relaxed ordering.
  bool shuffle_within_write = false;
  // Each turn of a queue pair is put off by up to this long, so that queue pairs overtake each
  // other.
  std::chrono::microseconds max_delay{0};
  // How long a send that nothing answers is repeated before IBV_WC_RETRY_EXC_ERR.
  std::chrono::milliseconds retry_time{20};
  std::chrono::microseconds rnr_wait{100};
  // RDMA_CM_EVENT_UNREACHABLE comes after this long.
  std::chrono::milliseconds connect_timeout{100};
  // The side that called disconnect() gets DISCONNECTED when the peer answers by disconnect() or
  // destroy_id(), or after this long.
  std::chrono::milliseconds disconnect_timeout{200};
  // TIMEWAIT_EXIT follows DISCONNECTED by this much (not on iWARP); negative: never.
  std::chrono::milliseconds timewait{20};
  // The real adapters of mlx5 drop what a destroyed queue pair left in its completion queue.
  bool keeps_completions_of_destroyed = false;
};

}  // namespace farwrite::verbs_double
