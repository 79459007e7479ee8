// How the wire executes one send request.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "verbs_double/adapter.h"
#include "verbs_double/completions.h"
#include "verbs_double/network.h"
#include "verbs_double/wire.h"

namespace farwrite::verbs_double {
namespace {

constexpr std::uint64_t kBurst = 16;  // packets of one turn
constexpr std::chrono::microseconds kLookAgain{200};

bool is_write(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_RDMA_WRITE || opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

bool is_send(ibv_wr_opcode opcode) {
  return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM;
}

std::uint64_t mtu_of(const QueuePair& pair) {
  const PortOptions& port = pair.adapter.device_of(pair.context)->options.ports.front();
  return std::uint64_t{128} << port.active_mtu;
}

// The peer's adapter refused: its pair is in error, too.
void fail_peer(QueuePair& peer, ibv_event_type type) {
  peer.fail();
  ibv_async_event event{};
  event.element.qp = &peer;
  event.event_type = type;
  peer.adapter.announce(peer.context, event);
}

}  // namespace

std::optional<Wire::Outcome> Wire::wait_for(QueuePair& pair, QueuePair* peer,
                                            SendRequest& request) {
  const auto now = Clock::now();
  bool dead = peer == nullptr || pair.adapter.broken.load(std::memory_order_relaxed);
  if (!dead) {
    const std::lock_guard lock(peer->lock);
    dead = peer->destroyed || peer->now == IBV_QPS_ERR || peer->now == IBV_QPS_RESET ||
           peer->adapter.broken.load(std::memory_order_relaxed);
    if (!dead) {
      request.give_up.reset();
      if (peer->now == IBV_QPS_INIT || peer->adapter.paused.load(std::memory_order_acquire)) {
        return Outcome{Step::kWait, now + kLookAgain, IBV_WC_SUCCESS, 0};
      }
      peer->visitors.fetch_add(1, std::memory_order_relaxed);
      return std::nullopt;
    }
  }
  if (!request.give_up) request.give_up = now + adapter_.wire_options.retry_time;
  if (now >= *request.give_up) return Outcome{Step::kFailed, {}, IBV_WC_RETRY_EXC_ERR, 0x81};
  return Outcome{Step::kWait, std::min(*request.give_up, now + kLookAgain), IBV_WC_SUCCESS, 0};
}

Wire::Outcome Wire::execute(QueuePair& pair, QueuePair& peer, SendRequest& request) {
  if (!request.begun) {
    request.begun = true;
    const Outcome outcome = begin(pair, peer, request);
    if (outcome.step == Step::kFailed) return outcome;
  }
  switch (request.opcode) {
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
    case IBV_WR_RDMA_READ:
      return move_packets(pair, peer, request);
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
      return deliver(pair, peer, request);
    default:
      return atomic(pair, peer, request);
  }
}

Wire::Outcome Wire::begin(QueuePair& pair, QueuePair& peer, SendRequest& request) {
  const RnicOptions& device = adapter_.device_of(pair.context)->options;
  if (request.bytes > device.ports.front().max_msg_sz) return failed(IBV_WC_LOC_LEN_ERR);
  const bool pushes = is_write(request.opcode) || is_send(request.opcode);
  if (!pushes) {
    std::uint8_t resources = 0;
    {
      const std::lock_guard lock(peer.lock);
      resources = peer.terms.responder_resources;
    }
    if (pair.initiator_depth.load(std::memory_order_relaxed) == 0) {
      return failed(IBV_WC_LOC_QP_OP_ERR);
    }
    if (resources == 0) {
      fail_peer(peer, IBV_EVENT_QP_REQ_ERR);
      return failed(IBV_WC_REM_INV_REQ_ERR);
    }
  }
  if (is_write(request.opcode) || request.opcode == IBV_WR_RDMA_READ) {
    const Place remote{peer.pd, request.remote_address, request.remote_key, true};
    const unsigned access =
        request.opcode == IBV_WR_RDMA_READ ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
    if (!peer.adapter.memory.allows(remote, request.bytes, access)) {
      fail_peer(peer, IBV_EVENT_QP_ACCESS_ERR);
      return failed(IBV_WC_REM_ACCESS_ERR);
    }
    // Relaxed ordering takes back what the device promises.
    const bool ordered =
        device.data_in_order &&
        !peer.adapter.memory.allows(remote, request.bytes, access | IBV_ACCESS_RELAXED_ORDERING);
    if (adapter_.wire_options.shuffle_within_write && !ordered) {
      const std::uint64_t mtu = mtu_of(pair);
      request.order.resize((request.bytes + mtu - 1) / mtu);
      std::iota(request.order.begin(), request.order.end(), 0u);
      for (std::size_t left = request.order.size(); left > 1; --left) {
        std::swap(request.order[left - 1], request.order[random_.below(left)]);
      }
    }
  }
  if (pushes && device.completes_early) {
    std::vector<std::byte> data(request.bytes);
    if (!gather(pair, request, 0, data.data(), data.size())) return failed(IBV_WC_LOC_PROT_ERR);
    request.on_its_way = std::move(data);
    request.completed = true;
    if (request.signalled) {
      ibv_wc completion{};
      completion.wr_id = request.wr_id;
      completion.opcode = completion_opcode(request.opcode);
      completion.qp_num = pair.qp_num;
      pair.complete(false, request.number, completion);
    }
  }
  return {};
}

Wire::Outcome Wire::move_packets(QueuePair& pair, QueuePair& peer, SendRequest& request) {
  const std::uint64_t mtu = mtu_of(pair);
  const std::uint64_t count = (request.bytes + mtu - 1) / mtu;
  const bool whole_bursts = adapter_.wire_options.max_delay.count() == 0;
  const std::uint64_t burst = whole_bursts ? kBurst : 1 + random_.below(kBurst);
  const std::uint64_t end = std::min(count, request.packets_done + burst);
  const bool reads = request.opcode == IBV_WR_RDMA_READ;
  // RFC 5040: the sink of a read is named like the target of a write.
  const bool iwarp = adapter_.device_of(pair.context)->options.transport == Transport::kIwarp;
  const unsigned sink =
      iwarp ? static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE) | IBV_ACCESS_REMOTE_WRITE
            : static_cast<unsigned>(IBV_ACCESS_LOCAL_WRITE);
  packet_.resize(mtu);
  for (; request.packets_done < end; ++request.packets_done) {
    const std::uint64_t index =
        request.order.empty() ? request.packets_done : request.order[request.packets_done];
    const std::uint64_t offset = index * mtu;
    const std::uint64_t bytes = std::min(mtu, request.bytes - offset);
    const Place remote{peer.pd, request.remote_address + offset, request.remote_key, true};
    bool remote_agrees = true;
    if (reads) {
      remote_agrees =
          peer.adapter.memory.read(remote, packet_.data(), bytes, IBV_ACCESS_REMOTE_READ);
      if (remote_agrees && !scatter(pair, request.pieces, offset, packet_.data(), bytes, sink)) {
        return failed(IBV_WC_LOC_PROT_ERR);
      }
    } else {
      if (!gather(pair, request, offset, packet_.data(), bytes)) {
        return failed(IBV_WC_LOC_PROT_ERR);
      }
      remote_agrees =
          peer.adapter.memory.write(remote, packet_.data(), bytes, IBV_ACCESS_REMOTE_WRITE);
    }
    if (!remote_agrees) {
      fail_peer(peer, IBV_EVENT_QP_ACCESS_ERR);
      return failed(IBV_WC_REM_ACCESS_ERR);
    }
  }
  if (request.packets_done < count) return {Step::kAgain, {}, IBV_WC_SUCCESS, 0};
  if (request.opcode == IBV_WR_RDMA_WRITE_WITH_IMM) return deliver(pair, peer, request);
  return {};
}

Wire::Outcome Wire::atomic(QueuePair& pair, QueuePair& peer, SendRequest& request) {
  if (request.bytes != sizeof(std::uint64_t)) return failed(IBV_WC_LOC_LEN_ERR);
  if (request.remote_address % sizeof(std::uint64_t) != 0) {
    fail_peer(peer, IBV_EVENT_QP_REQ_ERR);
    return failed(IBV_WC_REM_INV_REQ_ERR);
  }
  const Place remote{peer.pd, request.remote_address, request.remote_key, true};
  std::uint64_t before = 0;
  MemoryTable& memory = peer.adapter.memory;
  const bool done = request.opcode == IBV_WR_ATOMIC_CMP_AND_SWP
                        ? memory.compare_swap(remote, request.compare_add, request.swap, &before)
                        : memory.fetch_add(remote, request.compare_add, &before);
  if (!done) {
    fail_peer(peer, IBV_EVENT_QP_ACCESS_ERR);
    return failed(IBV_WC_REM_ACCESS_ERR);
  }
  if (!scatter(pair, request.pieces, 0, reinterpret_cast<const std::byte*>(&before), sizeof(before),
               IBV_ACCESS_LOCAL_WRITE)) {
    return failed(IBV_WC_LOC_PROT_ERR);
  }
  return {};
}

Wire::Outcome Wire::deliver(QueuePair& pair, QueuePair& peer, SendRequest& request) {
  std::vector<std::byte> data;
  if (is_send(request.opcode)) {
    data.resize(request.bytes);
    if (!gather(pair, request, 0, data.data(), data.size())) return failed(IBV_WC_LOC_PROT_ERR);
  }
  ibv_wc_status at_peer = IBV_WC_SUCCESS;
  ibv_wc_status here = IBV_WC_SUCCESS;
  {
    const std::lock_guard lock(peer.lock);
    if (peer.destroyed || peer.now != IBV_QPS_RTS) {
      return {Step::kWait, Clock::now() + kLookAgain, IBV_WC_SUCCESS, 0};  // and then not at all
    }
    if (peer.receives.empty()) {
      adapter_.counters.rnr_naks.fetch_add(1, std::memory_order_relaxed);
      const std::uint8_t most = pair.rnr_retry.load(std::memory_order_relaxed);
      if (most != 7 && ++request.rnr_naks > most) return failed(IBV_WC_RNR_RETRY_EXC_ERR);
      return {Step::kWait, Clock::now() + adapter_.wire_options.rnr_wait, IBV_WC_SUCCESS, 0};
    }
    const ReceiveRequest& receive = peer.receives.front();
    std::uint64_t room = 0;
    for (const ibv_sge& piece : receive.pieces) room += piece.length;
    if (data.size() > room) {
      at_peer = IBV_WC_LOC_LEN_ERR;
      here = IBV_WC_REM_INV_REQ_ERR;
    } else if (!scatter(peer, receive.pieces, 0, data.data(), data.size(),
                        IBV_ACCESS_LOCAL_WRITE)) {
      at_peer = IBV_WC_LOC_PROT_ERR;
      here = IBV_WC_REM_OP_ERR;
    }
    ibv_wc completion{};
    if (at_peer == IBV_WC_SUCCESS) {
      completion.wr_id = receive.wr_id;
      completion.opcode = is_send(request.opcode) ? IBV_WC_RECV : IBV_WC_RECV_RDMA_WITH_IMM;
      completion.byte_len = static_cast<std::uint32_t>(request.bytes);
      completion.qp_num = peer.qp_num;
      completion.src_qp = pair.qp_num;
      if (request.opcode != IBV_WR_SEND) {
        completion.wc_flags = IBV_WC_WITH_IMM;
        completion.imm_data = request.imm_data;
      }
    } else {
      completion = error_completion(receive.wr_id, peer.qp_num, at_peer, 0x32);
    }
    peer.complete(true, receive.number, completion);
    peer.receives.pop_front();
  }
  if (at_peer == IBV_WC_SUCCESS) return {};
  peer.fail();
  return failed(here);
}

bool Wire::gather(QueuePair& pair, const SendRequest& request, std::uint64_t offset, std::byte* to,
                  std::uint64_t bytes) {
  if (request.is_inline || request.completed) {
    const auto& held = request.is_inline ? request.inlined : request.on_its_way;
    if (bytes > 0) std::memcpy(to, held.data() + offset, bytes);
    return true;
  }
  for (const ibv_sge& piece : request.pieces) {
    if (bytes == 0) break;
    if (offset >= piece.length) {
      offset -= piece.length;
      continue;
    }
    const std::uint64_t part = std::min(bytes, piece.length - offset);
    // The adapter checks the whole piece, whatever part of it is up.
    if (!pair.adapter.memory.allows({pair.pd, piece.addr, piece.lkey, false}, piece.length, 0) ||
        !pair.adapter.memory.read({pair.pd, piece.addr + offset, piece.lkey, false}, to, part, 0)) {
      return false;
    }
    to += part;
    bytes -= part;
    offset = 0;
  }
  return true;
}

bool Wire::scatter(QueuePair& pair, const std::vector<ibv_sge>& pieces, std::uint64_t offset,
                   const std::byte* from, std::uint64_t bytes, unsigned access) {
  for (const ibv_sge& piece : pieces) {
    if (bytes == 0) break;
    if (offset >= piece.length) {
      offset -= piece.length;
      continue;
    }
    const std::uint64_t part = std::min(bytes, piece.length - offset);
    const Place place{pair.pd, piece.addr + offset, piece.lkey, false};
    if (!pair.adapter.memory.write(place, from, part, access)) return false;
    from += part;
    bytes -= part;
    offset = 0;
  }
  return true;
}

}  // namespace farwrite::verbs_double
