#include "verbs_double/connection_events.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace farwrite::verbs_double {
namespace {

// The end of a connection as one side sees it.
void finish(const std::shared_ptr<CmId>& id) {
  if (id->destroyed || id->state == CmState::kOver) return;
  const bool heard = id->state == CmState::kPeerLeft;
  id->state = CmState::kOver;
  if (!heard) push(id, RDMA_CM_EVENT_DISCONNECTED, 0);
  const auto timewait = id->adapter->wire_options.timewait;
  if (id->iwarp() || timewait.count() < 0) return;
  later(*id->adapter, id, timewait,
        [](CmId& over) { push(over.self(), RDMA_CM_EVENT_TIMEWAIT_EXIT, 0); });
}

void tell_goodbye(const std::shared_ptr<CmId>& id, const std::shared_ptr<CmId>& peer) {
  if (id->adapter == nullptr || id->adapter->broken || peer->adapter->broken) return;  // lost
  if (id->adapter->paused || peer->adapter->paused) {  // repeated until it gets through
    later(*peer->adapter, peer, std::chrono::milliseconds(1),
          [id](CmId& waiting) { tell_goodbye(id, waiting.self()); });
    return;
  }
  if (peer->state == CmState::kConnected || peer->state == CmState::kAccepted) {
    peer->state = CmState::kPeerLeft;
    push(peer, RDMA_CM_EVENT_DISCONNECTED, 0);
  } else if (peer->state == CmState::kConnecting) {
    // It has not fetched the answer yet; that comes first.
    auto event = make_event(peer, RDMA_CM_EVENT_DISCONNECTED, 0);
    send(std::move(event));
  } else if (peer->state == CmState::kDisconnecting) {
    finish(peer);
  }
}

}  // namespace

std::unique_ptr<CmEvent> make_event(const std::shared_ptr<CmId>& owner, rdma_cm_event_type type,
                                    int status) {
  auto event = std::make_unique<CmEvent>();
  event->id = owner.get();
  event->event = type;
  event->status = status;
  event->owner = owner;
  return event;
}

void describe(CmEvent& event, const rdma_conn_param& said, std::size_t padded) {
  rdma_conn_param& shown = event.param.conn;
  shown = said;
  // What one side may start, the other must answer.
  std::swap(shown.responder_resources, shown.initiator_depth);
  event.data.resize(std::max<std::size_t>(said.private_data_len, padded));
  if (said.private_data_len > 0) {
    std::memcpy(event.data.data(), said.private_data, said.private_data_len);
  }
  shown.private_data = event.data.empty() ? nullptr : event.data.data();
  shown.private_data_len = static_cast<std::uint8_t>(event.data.size());
}

void send(std::unique_ptr<CmEvent> event) {
  auto* channel = static_cast<CmChannel*>(event->owner->channel);
  channel->events.push(std::move(event));
}

void push(const std::shared_ptr<CmId>& owner, rdma_cm_event_type type, int status) {
  send(make_event(owner, type, status));
}

void later(Adapter& adapter, const std::shared_ptr<CmId>& id, std::chrono::milliseconds delay,
           std::function<void(CmId&)> action) {
  adapter.wire.at(Clock::now() + delay,
                  [network = adapter.network.get(), weak = std::weak_ptr<CmId>(id),
                   action = std::move(action)] {
                    const std::lock_guard lock(network->lock);
                    const auto alive = weak.lock();
                    if (alive != nullptr && !alive->destroyed) action(*alive);
                  });
}

void refuse(CmId& passive) {
  passive.state = CmState::kOver;
  const auto active = passive.peer.lock();
  if (active == nullptr || active->destroyed || active->state != CmState::kConnecting) return;
  active->state = CmState::kOver;
  constexpr int kConsumerDefined = 28;  // IB_CM_REJ_CONSUMER_DEFINED
  push(active, RDMA_CM_EVENT_REJECTED, passive.iwarp() ? -ECONNRESET : kConsumerDefined);
}

void leave(const std::shared_ptr<CmId>& id) {
  const auto peer = id->peer.lock();
  switch (id->state) {
    case CmState::kRequested:
      refuse(*id);
      return;
    case CmState::kConnecting:
      if (peer == nullptr || peer->destroyed) return;
      if (peer->state == CmState::kRequested || peer->state == CmState::kAccepted) {
        peer->state = CmState::kOver;
        push(peer, RDMA_CM_EVENT_REJECTED, id->iwarp() ? -ECONNRESET : 4);  // IB_CM_REJ_TIMEOUT
      }
      return;
    case CmState::kConnected:
    case CmState::kAccepted:
    case CmState::kPeerLeft:
      break;
    default:
      return;
  }
  const bool answers = id->state == CmState::kPeerLeft;
  if (id->iwarp()) {
    if (peer != nullptr && !peer->destroyed) {
      if (const auto pair = peer->pair.lock()) pair->fail();
      finish(peer);
    }
    finish(id);
    return;
  }
  if (answers) {
    finish(id);
  } else {
    id->state = CmState::kDisconnecting;
    later(*id->adapter, id, id->adapter->wire_options.disconnect_timeout, [](CmId& waiting) {
      if (waiting.state == CmState::kDisconnecting) finish(waiting.self());
    });
  }
  if (peer != nullptr && !peer->destroyed) {
    tell_goodbye(id, peer);
  } else if (!answers) {
    finish(id);
  }
}

void connection_lost(Network& network, const QueuePair& pair) {
  const std::lock_guard lock(network.lock);
  for (const auto& [id, state] : network.ids) {
    if (state->pair.lock().get() != &pair) continue;
    const std::shared_ptr<CmId> one = state;
    const auto peer = one->peer.lock();
    finish(one);
    if (peer != nullptr) finish(peer);
    return;
  }
}

}  // namespace farwrite::verbs_double
