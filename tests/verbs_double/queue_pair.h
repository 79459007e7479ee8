// QueuePair: a reliable connection's two queues, their states and what post_*() checks.
//
// Executing the requests is the wire's business (wire.h). A pair's lock is never held together with
// another pair's.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "verbs_double/completion_queue.h"

namespace farwrite::verbs_double {

struct Adapter;

using Clock = std::chrono::steady_clock;

struct SendRequest {
  std::uint64_t number = 0;
  std::uint64_t wr_id = 0;
  ibv_wr_opcode opcode = IBV_WR_RDMA_WRITE;
  bool signalled = false;
  std::uint32_t imm_data = 0;
  std::uint64_t remote_address = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::vector<ibv_sge> pieces;
  bool is_inline = false;
  std::vector<std::byte> inlined;
  std::uint64_t bytes = 0;

  // How far the wire is.
  bool begun = false;
  bool completed = false;             // early; the data is still on its way
  std::vector<std::byte> on_its_way;  // of a request that completed early
  std::vector<std::uint32_t> order;   // of the packets, if they are shuffled
  std::uint64_t packets_done = 0;
  std::uint64_t rnr_naks = 0;
  std::optional<Clock::time_point> give_up;
};

struct ReceiveRequest {
  std::uint64_t number = 0;
  std::uint64_t wr_id = 0;
  std::vector<ibv_sge> pieces;
};

// What the two sides of a connection have agreed on.
struct PairTerms {
  std::shared_ptr<QueuePair> peer;
  std::uint8_t rnr_retry = 7;
  std::uint8_t retry = 7;
  std::uint8_t responder_resources = 0;
  std::uint8_t initiator_depth = 0;
};

struct QueuePair : ibv_qp, std::enable_shared_from_this<QueuePair> {
  QueuePair(Adapter& owner, ibv_pd* domain, const ibv_qp_init_attr& attributes);

  int post_send(ibv_send_wr* first, ibv_send_wr** bad);
  int post_recv(ibv_recv_wr* first, ibv_recv_wr** bad);
  // RESET, INIT and ERR only; the connection manager goes through connect_to(). In ERR nothing of
  // the peer's moves any more when it returns.
  int modify(ibv_qp_state to);
  // To RTS, with everything that librdmacm sets on the way.
  int connect_to(const PairTerms& terms);
  void query(ibv_qp_attr* attributes, ibv_qp_init_attr* init);
  // Nothing moves and nothing completes after this.
  void destroy();

  // Called by a completion queue.
  void free_through(bool receive, std::uint64_t number);
  // Takes a completion to its queue; complains if it does not fit.
  void complete(bool receive, std::uint64_t number, const ibv_wc& completion);
  // Its own adapter saw an error: flushes follow.
  void fail();

  Adapter& adapter;
  ibv_qp_cap caps{};
  const bool signals_all;

  std::mutex lock;
  // All under `lock`.
  ibv_qp_state now = IBV_QPS_RESET;
  bool destroyed = false;
  std::weak_ptr<QueuePair> peer;
  PairTerms terms;  // without the peer
  std::deque<SendRequest> sends;
  std::deque<ReceiveRequest> receives;
  std::uint64_t next_send = 0;
  std::uint64_t next_receive = 0;
  bool executing = false;  // the wire is busy with sends.front()
  std::condition_variable executed;

  // Requests whose slots are free again, by completions that something has polled.
  std::atomic<std::uint64_t> sends_freed{0};
  std::atomic<std::uint64_t> receives_freed{0};
  // Movements that a peer makes on this pair's behalf.
  std::atomic<int> visitors{0};
  // A test holds its sends back.
  std::atomic<bool> held{false};
  // Of `terms`, for the wire.
  std::atomic<std::uint8_t> rnr_retry{7};
  std::atomic<std::uint8_t> initiator_depth{0};

 private:
  void wait_for_visitors();
  int check_send(const ibv_send_wr& request, std::uint64_t* bytes) const;
};

}  // namespace farwrite::verbs_double
