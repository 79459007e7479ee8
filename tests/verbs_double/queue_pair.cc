#include "verbs_double/queue_pair.h"

#include <cerrno>
#include <cstring>
#include <thread>

#include "verbs_double/adapter.h"
#include "verbs_double/network.h"

namespace farwrite::verbs_double {
namespace {

bool has_immediate(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_WRITE_WITH_IMM || opcode == IBV_WR_SEND_WITH_IMM;
}

bool is_atomic(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_ATOMIC_CMP_AND_SWP || opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

}  // namespace

QueuePair::QueuePair(Adapter& owner, ibv_pd* domain, const ibv_qp_init_attr& attributes)
    : ibv_qp{}, adapter(owner), caps(attributes.cap), signals_all(attributes.sq_sig_all != 0) {
  context = domain->context;
  qp_context = attributes.qp_context;
  pd = domain;
  send_cq = attributes.send_cq;
  recv_cq = attributes.recv_cq;
  qp_num = owner.network->next_pair.fetch_add(1, std::memory_order_relaxed);
  handle = qp_num;
  state = IBV_QPS_RESET;
  qp_type = attributes.qp_type;
}

int QueuePair::check_send(const ibv_send_wr& request, std::uint64_t* bytes) const {
  const RnicOptions& device = adapter.device_of(context)->options;
  if (request.opcode < 0 || request.opcode >= kSendOpcodes) return EINVAL;
  if (request.num_sge < 0 || static_cast<std::uint32_t>(request.num_sge) > caps.max_send_sge) {
    return EINVAL;
  }
  if (has_immediate(request.opcode) && !device.supports_immediate) return EINVAL;
  if (is_atomic(request.opcode) && !device.supports_atomics) return EINVAL;
  if (request.opcode == IBV_WR_RDMA_READ && request.num_sge > device.max_sge_rd) return EINVAL;
  *bytes = 0;
  for (int i = 0; i < request.num_sge; ++i) *bytes += request.sg_list[i].length;
  if ((request.send_flags & IBV_SEND_INLINE) != 0) {
    if (request.opcode == IBV_WR_RDMA_READ || is_atomic(request.opcode)) return EINVAL;
    if (*bytes > caps.max_inline_data) return EINVAL;
  }
  return 0;
}

int QueuePair::post_send(ibv_send_wr* first, ibv_send_wr** bad) {
  int error = 0;
  {
    const std::lock_guard guard(lock);
    for (ibv_send_wr* next = first; next != nullptr; next = next->next) {
      std::uint64_t bytes = 0;
      error = adapter.refused(Call::kPostSend);
      if (error == 0 && now != IBV_QPS_RTS && now != IBV_QPS_ERR) error = EINVAL;
      if (error == 0) error = check_send(*next, &bytes);
      if (error == 0 &&
          next_send - sends_freed.load(std::memory_order_relaxed) >= caps.max_send_wr) {
        error = ENOMEM;
      }
      if (error != 0) {
        *bad = next;
        break;
      }
      SendRequest& request = sends.emplace_back();
      request.number = next_send++;
      request.wr_id = next->wr_id;
      request.opcode = next->opcode;
      request.signalled = signals_all || (next->send_flags & IBV_SEND_SIGNALED) != 0;
      request.imm_data = next->imm_data;
      if (is_atomic(next->opcode)) {
        request.remote_address = next->wr.atomic.remote_addr;
        request.remote_key = next->wr.atomic.rkey;
        request.compare_add = next->wr.atomic.compare_add;
        request.swap = next->wr.atomic.swap;
      } else {
        request.remote_address = next->wr.rdma.remote_addr;
        request.remote_key = next->wr.rdma.rkey;
      }
      request.bytes = bytes;
      request.is_inline = (next->send_flags & IBV_SEND_INLINE) != 0;
      for (int i = 0; i < next->num_sge; ++i) {
        const ibv_sge& piece = next->sg_list[i];
        if (piece.length == 0) continue;
        if (request.is_inline) {
          const auto* from = reinterpret_cast<const std::byte*>(piece.addr);
          request.inlined.insert(request.inlined.end(), from, from + piece.length);
        } else {
          request.pieces.push_back(piece);
        }
      }
      adapter.counters.posted[next->opcode].fetch_add(1, std::memory_order_relaxed);
      if (request.signalled) adapter.counters.signalled.fetch_add(1, std::memory_order_relaxed);
      if (request.is_inline) adapter.counters.inlined.fetch_add(1, std::memory_order_relaxed);
    }
  }
  adapter.wire.ring(shared_from_this());
  return error;
}

int QueuePair::post_recv(ibv_recv_wr* first, ibv_recv_wr** bad) {
  int error = 0;
  bool flushes = false;
  {
    const std::lock_guard guard(lock);
    for (ibv_recv_wr* next = first; next != nullptr; next = next->next) {
      error = adapter.refused(Call::kPostRecv);
      if (error == 0 && now == IBV_QPS_RESET) error = EINVAL;
      if (error == 0 &&
          (next->num_sge < 0 || static_cast<std::uint32_t>(next->num_sge) > caps.max_recv_sge)) {
        error = EINVAL;
      }
      if (error == 0 &&
          next_receive - receives_freed.load(std::memory_order_relaxed) >= caps.max_recv_wr) {
        error = ENOMEM;
      }
      if (error != 0) {
        *bad = next;
        break;
      }
      ReceiveRequest& request = receives.emplace_back();
      request.number = next_receive++;
      request.wr_id = next->wr_id;
      request.pieces.assign(next->sg_list, next->sg_list + next->num_sge);
      adapter.counters.receives.fetch_add(1, std::memory_order_relaxed);
    }
    flushes = now == IBV_QPS_ERR;
  }
  if (flushes) adapter.wire.ring(shared_from_this());
  return error;
}

int QueuePair::modify(ibv_qp_state to) {
  {
    std::unique_lock guard(lock);
    switch (to) {
      case IBV_QPS_RESET:
        executed.wait(guard, [&] { return !executing; });
        sends.clear();
        receives.clear();
        peer.reset();
        next_send = next_receive = 0;
        sends_freed = receives_freed = 0;
        static_cast<CompletionQueue*>(send_cq)->forget(this, false);
        static_cast<CompletionQueue*>(recv_cq)->forget(this, false);
        break;
      case IBV_QPS_INIT:
        if (now != IBV_QPS_RESET && now != IBV_QPS_INIT) return EINVAL;
        break;
      case IBV_QPS_ERR:
        break;
      default:
        return EINVAL;
    }
    now = to;
    state = to;
  }
  if (to == IBV_QPS_ERR) wait_for_visitors();
  adapter.wire.ring(shared_from_this());
  return 0;
}

void QueuePair::wait_for_visitors() {
  for (;;) {
    const int inside = visitors.load(std::memory_order_acquire);
    if (inside == 0) return;
    visitors.wait(inside, std::memory_order_acquire);
  }
}

int QueuePair::connect_to(const PairTerms& agreed) {
  {
    const std::lock_guard guard(lock);
    if (now != IBV_QPS_INIT) return EINVAL;
    peer = agreed.peer;
    terms = agreed;
    terms.peer = nullptr;
    rnr_retry = agreed.rnr_retry;
    initiator_depth = agreed.initiator_depth;
    now = IBV_QPS_RTS;
    state = IBV_QPS_RTS;
  }
  adapter.wire.ring(shared_from_this());
  return 0;
}

void QueuePair::query(ibv_qp_attr* attributes, ibv_qp_init_attr* init) {
  const std::lock_guard guard(lock);
  const auto other = peer.lock();
  *attributes = {};
  attributes->qp_state = now;
  attributes->cur_qp_state = now;
  attributes->path_mtu = adapter.device_of(context)->options.ports.front().active_mtu;
  attributes->dest_qp_num = other == nullptr ? 0 : other->qp_num;
  attributes->cap = caps;
  attributes->retry_cnt = terms.retry;
  attributes->rnr_retry = terms.rnr_retry;
  attributes->max_rd_atomic = terms.initiator_depth;
  attributes->max_dest_rd_atomic = terms.responder_resources;
  attributes->port_num = 1;
  attributes->timeout = 14;
  *init = {};
  init->qp_context = qp_context;
  init->send_cq = send_cq;
  init->recv_cq = recv_cq;
  init->cap = caps;
  init->qp_type = qp_type;
  init->sq_sig_all = signals_all ? 1 : 0;
}

void QueuePair::destroy() {
  {
    std::unique_lock guard(lock);
    destroyed = true;
    executed.wait(guard, [&] { return !executing; });
    sends.clear();
    receives.clear();
  }
  wait_for_visitors();
  const bool keeps = adapter.wire_options.keeps_completions_of_destroyed;
  static_cast<CompletionQueue*>(send_cq)->forget(this, keeps);
  static_cast<CompletionQueue*>(recv_cq)->forget(this, keeps);
}

void QueuePair::free_through(bool receive, std::uint64_t number) {
  // In the order of the queue, so this never goes back.
  (receive ? receives_freed : sends_freed).store(number + 1, std::memory_order_relaxed);
}

void QueuePair::complete(bool receive, std::uint64_t number, const ibv_wc& completion) {
  auto* queue = static_cast<CompletionQueue*>(receive ? recv_cq : send_cq);
  if (queue->add({completion, this, receive, number})) return;
  adapter.counters.overruns.fetch_add(1, std::memory_order_relaxed);
  adapter.complain("a completion queue of " + std::to_string(queue->cqe) + " entries overran");
  ibv_async_event event{};
  event.element.cq = queue;
  event.event_type = IBV_EVENT_CQ_ERR;
  adapter.announce(context, event);
}

void QueuePair::fail() {
  {
    const std::lock_guard guard(lock);
    if (destroyed || now == IBV_QPS_RESET) return;
    now = IBV_QPS_ERR;
  }
  adapter.wire.ring(shared_from_this());
}

}  // namespace farwrite::verbs_double
