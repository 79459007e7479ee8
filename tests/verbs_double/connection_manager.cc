#include "verbs_double/connection_manager.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs_double/connection_events.h"

namespace farwrite::verbs_double {
namespace {

constexpr int kMostRequests = 1024;

}  // namespace

rdma_event_channel* ConnectionManager::create_channel() {
  auto* channel = new CmChannel;
  channel->fd = channel->events.fd();
  const std::lock_guard lock(adapter_.objects);
  ++adapter_.event_channels;
  return channel;
}

void ConnectionManager::destroy_channel(rdma_event_channel* channel) {
  {
    const std::lock_guard lock(network_.lock);
    for (const auto& [id, state] : network_.ids) {
      if (id->channel == channel) adapter_.complain("an event channel goes before its ids");
    }
  }
  delete static_cast<CmChannel*>(channel);
  const std::lock_guard lock(adapter_.objects);
  --adapter_.event_channels;
}

int ConnectionManager::get_event(rdma_event_channel* channel, rdma_cm_event** event) {
  auto& events = static_cast<CmChannel*>(channel)->events;
  for (;;) {
    std::unique_ptr<CmEvent> next;
    if (const int error = events.take(&next); error != 0) return error;
    const std::lock_guard lock(network_.lock);
    if (next->owner->destroyed || !fetched(*next)) continue;
    ++next->owner->events_taken;
    *event = next.release();
    return 0;
  }
}

bool ConnectionManager::fetched(CmEvent& event) {
  CmId& id = *event.owner;
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      id.verbs = &id.device->context;
      id.port_num = id.device_port;
      return true;
    case RDMA_CM_EVENT_CONNECT_REQUEST:
      --id.requests;
      event.subject->channel = id.channel;
      return true;
    case RDMA_CM_EVENT_REJECTED:
      if (const auto pair = id.pair.lock()) pair->modify(IBV_QPS_ERR);
      return true;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      break;
    default:
      return true;
  }
  const auto peer = id.peer.lock();
  const auto pair = id.pair.lock();
  PairTerms terms;
  terms.peer = peer == nullptr ? nullptr : peer->pair.lock();
  terms.retry = id.said.retry_count;
  if (peer != nullptr) {
    terms.rnr_retry = peer->said.rnr_retry_count;
    terms.responder_resources = peer->said.initiator_depth;
    terms.initiator_depth = peer->said.responder_resources;
  }
  event.status = pair == nullptr ? EINVAL : pair->connect_to(terms);
  if (event.status != 0) {
    event.event = RDMA_CM_EVENT_CONNECT_ERROR;
    return true;
  }
  event.event = RDMA_CM_EVENT_ESTABLISHED;
  id.state = CmState::kConnected;
  if (peer != nullptr && peer->state == CmState::kAccepted && !id.adapter->broken &&
      !peer->adapter->broken) {
    peer->state = CmState::kConnected;
    push(peer, RDMA_CM_EVENT_ESTABLISHED, 0);
  }
  return true;
}

int ConnectionManager::ack_event(rdma_cm_event* event) {
  const std::unique_ptr<CmEvent> gone(static_cast<CmEvent*>(event));
  const std::lock_guard lock(network_.lock);
  ++gone->owner->events_acked;
  return 0;
}

int ConnectionManager::create_id(rdma_event_channel* channel, rdma_cm_id** id) {
  auto made = std::make_shared<CmId>();
  made->adapter = &adapter_;
  made->channel = channel;
  made->ps = RDMA_PS_TCP;
  made->qp_type = IBV_QPT_RC;
  *id = made.get();
  const std::lock_guard lock(network_.lock);
  network_.ids.emplace(made.get(), made);
  return 0;
}

int ConnectionManager::destroy_id(rdma_cm_id* id) {
  const std::lock_guard lock(network_.lock);
  const auto at = network_.ids.find(&state_of(id));
  if (at == network_.ids.end()) {
    adapter_.complain("destroy_id of what is no id");
    return EINVAL;
  }
  const std::shared_ptr<CmId> gone = at->second;
  network_.ids.erase(at);
  if (gone->events_taken != gone->events_acked) {
    adapter_.complain("destroy_id before all its events are acknowledged waits for ever");
  }
  if (gone->qp != nullptr) adapter_.complain("destroy_id before destroy_qp");
  leave(gone);
  gone->destroyed = true;
  auto& events = static_cast<CmChannel*>(gone->channel)->events;
  for (const auto& event : events.remove_if([&](const auto& one) { return one->owner == gone; })) {
    if (event->subject != nullptr) {  // a request that nothing will answer
      refuse(*event->subject);
      network_.ids.erase(event->subject.get());
      event->subject->destroyed = true;
    }
  }
  return 0;
}

int ConnectionManager::migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  const std::lock_guard lock(network_.lock);
  CmId& moved = state_of(id);
  if (moved.events_taken != moved.events_acked) {
    adapter_.complain("migrate_id before all its events are acknowledged waits for ever");
  }
  auto& from = static_cast<CmChannel*>(moved.channel)->events;
  for (auto& event : from.remove_if([&](const auto& one) { return one->owner.get() == &moved; })) {
    static_cast<CmChannel*>(channel)->events.push(std::move(event));
  }
  moved.channel = channel;
  return 0;
}

int ConnectionManager::bind_locked(CmId& id, const sockaddr& address) {
  if (id.state != CmState::kIdle) return EINVAL;
  if (!is_any(address)) {
    std::uint8_t port = 0;
    Device* device = adapter_.device_at(address, &port);
    if (device == nullptr) return ENODEV;
    id.device = device;
    id.device_port = port;
  }
  std::uint16_t port = port_of(address);
  const auto taken = [&](std::uint16_t number) {
    return std::any_of(network_.ids.begin(), network_.ids.end(), [&](const auto& entry) {
      return port_of(entry.first->route.addr.src_addr) == number;
    });
  };
  if (port == 0) {
    do {
      port = network_.next_port++;
      if (network_.next_port == 0) network_.next_port = 40000;
    } while (port == 0 || taken(port));
  } else if (taken(port)) {
    return EADDRINUSE;
  }
  id.route.addr.src_storage = stored(address);
  set_port(&id.route.addr.src_addr, port);
  id.state = CmState::kBound;
  return 0;
}

int ConnectionManager::bind(rdma_cm_id* id, const sockaddr& address) {
  const std::lock_guard lock(network_.lock);
  CmId& bound = state_of(id);
  if (const int error = bind_locked(bound, address); error != 0) return error;
  if (bound.device != nullptr) {
    bound.verbs = &bound.device->context;
    bound.port_num = bound.device_port;
  }
  return 0;
}

int ConnectionManager::listen(rdma_cm_id* id, int backlog) {
  const std::lock_guard lock(network_.lock);
  CmId& listener = state_of(id);
  if (listener.state != CmState::kBound) return EINVAL;
  listener.backlog = backlog > 0 ? std::min(backlog, kMostRequests) : kMostRequests;
  listener.state = CmState::kListening;
  return 0;
}

int ConnectionManager::resolve_addr(rdma_cm_id* id, const sockaddr* source,
                                    const sockaddr& destination) {
  const std::lock_guard lock(network_.lock);
  CmId& resolving = state_of(id);
  if (resolving.state != CmState::kIdle && resolving.state != CmState::kBound) return EINVAL;
  if (resolving.state == CmState::kIdle && source != nullptr) {
    if (const int error = bind_locked(resolving, *source); error != 0) return error;
  }
  bool known = false;
  std::uint8_t port = 0;
  for (const Adapter* adapter : network_.adapters) {
    known = known || adapter->device_at(destination, &port) != nullptr;
  }
  if (known && resolving.device == nullptr) {
    // The route to an address of one's own is that device; to others, the first whose port is up.
    resolving.device = adapter_.device_at(destination, &resolving.device_port);
    for (const auto& device : adapter_.devices) {
      for (std::size_t i = 0; resolving.device == nullptr && i < device->ports.size(); ++i) {
        if (!device->ports[i].address ||
            device->ports[i].address->ss_family != destination.sa_family ||
            adapter_.port_state(*device, i) != IBV_PORT_ACTIVE) {
          continue;
        }
        resolving.device = device.get();
        resolving.device_port = static_cast<std::uint8_t>(i + 1);
      }
    }
  }
  const auto self = resolving.self();
  if (!known || resolving.device == nullptr) {
    push(self, RDMA_CM_EVENT_ADDR_ERROR, known ? -ENODEV : -EHOSTUNREACH);
    return 0;
  }
  if (resolving.state == CmState::kIdle) {
    const auto& own = resolving.device->ports[resolving.device_port - 1].address;
    sockaddr_storage local = *own;
    bind_locked(resolving, reinterpret_cast<const sockaddr&>(local));
  } else if (is_any(resolving.route.addr.src_addr)) {
    const std::uint16_t number = port_of(resolving.route.addr.src_addr);
    resolving.route.addr.src_storage = *resolving.device->ports[resolving.device_port - 1].address;
    set_port(&resolving.route.addr.src_addr, number);
  }
  resolving.route.addr.dst_storage = stored(destination);
  resolving.state = CmState::kAddressResolved;
  push(self, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
  return 0;
}

int ConnectionManager::resolve_route(rdma_cm_id* id) {
  const std::lock_guard lock(network_.lock);
  CmId& resolving = state_of(id);
  if (resolving.state != CmState::kAddressResolved) return EINVAL;
  const bool up =
      adapter_.port_state(*resolving.device, resolving.device_port - 1u) == IBV_PORT_ACTIVE;
  if (up) resolving.state = CmState::kRouteResolved;
  push(resolving.self(), up ? RDMA_CM_EVENT_ROUTE_RESOLVED : RDMA_CM_EVENT_ROUTE_ERROR,
       up ? 0 : -ENETDOWN);
  return 0;
}

void ConnectionManager::set_pair(rdma_cm_id* id, const std::shared_ptr<QueuePair>& pair) {
  const std::lock_guard lock(network_.lock);
  state_of(id).pair = pair;
}

void ConnectionManager::device_removed(const Device& device) {
  const std::lock_guard lock(network_.lock);
  for (const auto& [id, state] : network_.ids) {
    // A request that nothing has fetched is no id yet.
    if (state->device != &device || state->state == CmState::kRequested) continue;
    push(state, RDMA_CM_EVENT_DEVICE_REMOVAL, 0);
  }
}

std::size_t ConnectionManager::live() const {
  const std::lock_guard lock(network_.lock);
  return static_cast<std::size_t>(
      std::count_if(network_.ids.begin(), network_.ids.end(),
                    [&](const auto& entry) { return entry.second->adapter == &adapter_; }));
}

}  // namespace farwrite::verbs_double
