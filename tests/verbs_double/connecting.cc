// How two ids of the connection manager get and lose their connection.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs_double/connection_events.h"
#include "verbs_double/connection_manager.h"

namespace farwrite::verbs_double {
namespace {

// What the communication manager's packets have room for, behind rdma_cm's own header.
constexpr std::size_t kRequestData = 56;
constexpr std::size_t kReplyData = 196;
constexpr std::size_t kIwarpData = 255;

bool reachable(const Adapter& one, const Adapter& other) {
  return !one.broken && !other.broken && !one.paused && !other.paused;
}

}  // namespace

int ConnectionManager::check_parameters(const CmId& id, rdma_conn_param* parameters,
                                        std::size_t most_data) const {
  const RnicOptions& device = id.device->options;
  if (parameters->private_data_len > (id.iwarp() ? kIwarpData : most_data)) return EINVAL;
  if (parameters->responder_resources == RDMA_MAX_RESP_RES) {
    parameters->responder_resources = static_cast<std::uint8_t>(device.max_qp_rd_atom);
  }
  if (parameters->initiator_depth == RDMA_MAX_INIT_DEPTH) {
    parameters->initiator_depth = static_cast<std::uint8_t>(device.max_qp_init_rd_atom);
  }
  return parameters->responder_resources > device.max_qp_rd_atom ||
                 parameters->initiator_depth > device.max_qp_init_rd_atom
             ? EINVAL
             : 0;
}

std::shared_ptr<CmId> ConnectionManager::listener_for(const sockaddr& address) {
  for (const auto& [id, state] : network_.ids) {
    if (state->state != CmState::kListening) continue;
    const sockaddr& bound = id->route.addr.src_addr;
    std::uint8_t port = 0;
    if (port_of(bound) != port_of(address)) continue;
    if (is_any(bound) ? state->adapter->device_at(address, &port) != nullptr
                      : same_host(bound, address)) {
      return state;
    }
  }
  return nullptr;
}

int ConnectionManager::connect(rdma_cm_id* id, const rdma_conn_param& parameters) {
  const std::lock_guard lock(network_.lock);
  CmId& active = state_of(id);
  if (active.state != CmState::kRouteResolved || active.qp == nullptr) return EINVAL;
  active.said = parameters;
  if (const int error = check_parameters(active, &active.said, kRequestData); error != 0) {
    return error;
  }
  active.state = CmState::kConnecting;
  const auto self = active.self();
  const auto listener = listener_for(active.route.addr.dst_addr);
  bool reaches = !adapter_.broken && !adapter_.paused;
  for (const Adapter* other : network_.adapters) {
    std::uint8_t port = 0;
    if (listener == nullptr && other->device_at(active.route.addr.dst_addr, &port) != nullptr) {
      reaches = reaches && reachable(adapter_, *other);
    }
  }
  if (!reaches || (listener != nullptr && !reachable(adapter_, *listener->adapter))) {
    later(adapter_, self, adapter_.wire_options.connect_timeout, [](CmId& waiting) {
      if (waiting.state != CmState::kConnecting || waiting.peer.lock() != nullptr) return;
      waiting.state = CmState::kOver;
      push(waiting.self(), RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    });
    return 0;
  }
  if (listener == nullptr || listener->requests >= listener->backlog) {
    active.state = CmState::kOver;
    constexpr int kNoSuchService = 8;  // IB_CM_REJ_INVALID_SERVICE_ID
    push(self, RDMA_CM_EVENT_REJECTED, active.iwarp() ? -ECONNREFUSED : kNoSuchService);
    return 0;
  }

  auto passive = std::make_shared<CmId>();
  passive->adapter = listener->adapter;
  passive->device = listener->adapter->device_at(active.route.addr.dst_addr, &passive->device_port);
  passive->verbs = &passive->device->context;
  passive->port_num = passive->device_port;
  passive->channel = listener->channel;
  passive->context = listener->context;
  passive->ps = RDMA_PS_TCP;
  passive->qp_type = IBV_QPT_RC;
  passive->route.addr.src_storage = active.route.addr.dst_storage;
  passive->route.addr.dst_storage = active.route.addr.src_storage;
  passive->state = CmState::kRequested;
  passive->peer = self;
  active.peer = passive;
  network_.ids.emplace(passive.get(), passive);
  ++listener->requests;

  auto event = make_event(listener, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
  event->id = passive.get();
  event->listen_id = listener.get();
  event->subject = passive;
  describe(*event, active.said, active.iwarp() ? 0 : kRequestData);
  send(std::move(event));
  return 0;
}

int ConnectionManager::accept(rdma_cm_id* id, const rdma_conn_param* parameters) {
  const std::lock_guard lock(network_.lock);
  CmId& passive = state_of(id);
  const auto active = passive.peer.lock();
  const auto pair = passive.pair.lock();
  if (passive.state != CmState::kRequested || pair == nullptr || active == nullptr) return EINVAL;
  if (parameters != nullptr) {
    passive.said = *parameters;
  } else {
    passive.said.responder_resources = active->said.initiator_depth;
    passive.said.initiator_depth = active->said.responder_resources;
    passive.said.rnr_retry_count = active->said.rnr_retry_count;
  }
  if (const int error = check_parameters(passive, &passive.said, kReplyData); error != 0) {
    return error;
  }
  PairTerms terms;
  terms.peer = active->pair.lock();
  terms.retry = active->said.retry_count;
  terms.rnr_retry = active->said.rnr_retry_count;
  terms.responder_resources = passive.said.responder_resources;
  terms.initiator_depth = passive.said.initiator_depth;
  if (const int error = pair->connect_to(terms); error != 0) return error;
  passive.state = CmState::kAccepted;
  if (!reachable(adapter_, *active->adapter)) {
    later(adapter_, passive.self(), adapter_.wire_options.connect_timeout, [](CmId& waiting) {
      if (waiting.state != CmState::kAccepted) return;
      waiting.state = CmState::kOver;
      push(waiting.self(), RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    });
    later(adapter_, active, adapter_.wire_options.connect_timeout, [](CmId& waiting) {
      if (waiting.state != CmState::kConnecting) return;
      waiting.state = CmState::kOver;
      push(waiting.self(), RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT);
    });
    return 0;
  }
  auto event = make_event(active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
  describe(*event, passive.said, passive.iwarp() ? 0 : kReplyData);
  send(std::move(event));
  return 0;
}

int ConnectionManager::reject(rdma_cm_id* id) {
  const std::lock_guard lock(network_.lock);
  CmId& passive = state_of(id);
  if (passive.state != CmState::kRequested) return EINVAL;
  refuse(passive);
  return 0;
}

int ConnectionManager::disconnect(rdma_cm_id* id) {
  const std::lock_guard lock(network_.lock);
  CmId& leaving = state_of(id);
  // The library takes the pair to the error state before it asks the kernel.
  if (const auto pair = leaving.pair.lock()) pair->modify(IBV_QPS_ERR);
  if (leaving.state != CmState::kConnected && leaving.state != CmState::kAccepted &&
      leaving.state != CmState::kPeerLeft) {
    return EINVAL;
  }
  leave(leaving.self());
  return 0;
}

}  // namespace farwrite::verbs_double
