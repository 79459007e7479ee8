// Completion queues, queue pairs and connections of a software RNIC, as the library offers them.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "verbs_double/completion_queue.h"
#include "verbs_double/queue_pair.h"
#include "verbs_double/software_rnic.h"

namespace farwrite::verbs_double {
namespace {

CompletionQueue& queue_of(ibv_cq* queue) { return *static_cast<CompletionQueue*>(queue); }
QueuePair& pair_of(ibv_qp* pair) { return *static_cast<QueuePair*>(pair); }

// What adapters grant in steps.
constexpr std::uint32_t kInlineStep = 16;

}  // namespace

ibv_comp_channel* SoftwareRnic::create_comp_channel(ibv_context* context) {
  if (refuses(Call::kCreateCompChannel)) return nullptr;
  auto made = std::make_unique<CompletionChannel>();
  made->context = context;
  made->fd = made->events.fd();
  ibv_comp_channel* channel = made.get();
  const std::lock_guard lock(adapter_.objects);
  adapter_.channels.emplace(channel, std::move(made));
  return channel;
}

int SoftwareRnic::destroy_comp_channel(ibv_comp_channel* channel) {
  const std::lock_guard lock(adapter_.objects);
  for (const auto& [queue, state] : adapter_.queues) {
    if (queue->channel != channel) continue;
    adapter_.complain("destroy_comp_channel of a channel in use");
    return EBUSY;
  }
  return adapter_.channels.erase(channel) == 1 ? 0 : EINVAL;
}

ibv_cq* SoftwareRnic::create_cq(ibv_context* context, int entries, ibv_comp_channel* channel) {
  if (refuses(Call::kCreateCq)) return nullptr;
  const RnicOptions& options = adapter_.device_of(context)->options;
  if (entries < 1 || entries > options.max_cqe) {
    errno = EINVAL;
    return nullptr;
  }
  auto made = std::make_unique<CompletionQueue>(adapter_, context, entries, channel);
  ibv_cq* queue = made.get();
  const std::lock_guard lock(adapter_.objects);
  if (adapter_.queues.size() >= static_cast<std::size_t>(options.max_cq)) {
    errno = ENOMEM;
    return nullptr;
  }
  adapter_.queues.emplace(queue, std::move(made));
  return queue;
}

int SoftwareRnic::destroy_cq(ibv_cq* queue) {
  adapter_.forget_events(queue->context, queue);
  const std::lock_guard lock(adapter_.objects);
  const auto at = adapter_.queues.find(queue);
  if (at == adapter_.queues.end()) {
    adapter_.complain("destroy_cq of what is none");
    return EINVAL;
  }
  if (at->second->users > 0) {
    adapter_.complain("destroy_cq of a queue in use");
    return EBUSY;
  }
  if (queue->channel != nullptr) {
    static_cast<CompletionChannel*>(queue->channel)->events.remove_if([&](const ibv_cq* one) {
      return one == queue;
    });
  }
  {
    const std::lock_guard guard(at->second->lock);
    if (at->second->events_taken != at->second->events_acked) {
      adapter_.complain("destroy_cq before all its events are acknowledged waits for ever");
    }
  }
  adapter_.queues.erase(at);
  return 0;
}

int SoftwareRnic::poll_cq(ibv_cq* queue, int entries, ibv_wc* completions) {
  return queue_of(queue).poll(entries, completions);
}

int SoftwareRnic::req_notify_cq(ibv_cq* queue) {
  if (const int error = adapter_.refused(Call::kReqNotifyCq); error != 0) return error;
  queue_of(queue).arm();
  return 0;
}

int SoftwareRnic::get_cq_event(ibv_comp_channel* channel, ibv_cq** queue) {
  auto& events = static_cast<CompletionChannel*>(channel)->events;
  if (const int error = events.take(queue); error != 0) return error;
  const std::lock_guard guard(queue_of(*queue).lock);
  ++queue_of(*queue).events_taken;
  return 0;
}

void SoftwareRnic::ack_cq_events(ibv_cq* queue, unsigned events) {
  const std::lock_guard guard(queue_of(queue).lock);
  queue_of(queue).events_acked += events;
}

int SoftwareRnic::modify_qp(ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
  if ((mask & IBV_QP_STATE) == 0) return 0;
  const int error = pair_of(pair).modify(attributes->qp_state);
  if (error == 0 && attributes->qp_state == IBV_QPS_ERR) adapter_.pair_failed(pair_of(pair));
  return error;
}

int SoftwareRnic::query_qp(ibv_qp* pair, ibv_qp_attr* attributes, int /*mask*/,
                           ibv_qp_init_attr* init) {
  pair_of(pair).query(attributes, init);
  return 0;
}

int SoftwareRnic::post_send(ibv_qp* pair, ibv_send_wr* first, ibv_send_wr** bad) {
  return pair_of(pair).post_send(first, bad);
}

int SoftwareRnic::post_recv(ibv_qp* pair, ibv_recv_wr* first, ibv_recv_wr** bad) {
  return pair_of(pair).post_recv(first, bad);
}

bool SoftwareRnic::data_in_order(ibv_qp* pair, ibv_wr_opcode /*opcode*/) {
  return adapter_.device_of(pair->context)->options.data_in_order;
}

rdma_event_channel* SoftwareRnic::create_event_channel() {
  return refuses(Call::kCreateEventChannel) ? nullptr : connections_.create_channel();
}

void SoftwareRnic::destroy_event_channel(rdma_event_channel* channel) {
  connections_.destroy_channel(channel);
}

int SoftwareRnic::get_cm_event(rdma_event_channel* channel, rdma_cm_event** event) {
  return connections_.get_event(channel, event);
}

int SoftwareRnic::ack_cm_event(rdma_cm_event* event) { return connections_.ack_event(event); }

int SoftwareRnic::create_id(rdma_event_channel* channel, rdma_cm_id** id) {
  const int error = adapter_.refused(Call::kCreateId);
  return error != 0 ? error : connections_.create_id(channel, id);
}

int SoftwareRnic::destroy_id(rdma_cm_id* id) { return connections_.destroy_id(id); }

int SoftwareRnic::migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return connections_.migrate_id(id, channel);
}

int SoftwareRnic::bind_addr(rdma_cm_id* id, sockaddr* address) {
  const int error = adapter_.refused(Call::kBindAddr);
  return error != 0 ? error : connections_.bind(id, *address);
}

int SoftwareRnic::listen(rdma_cm_id* id, int backlog) {
  const int error = adapter_.refused(Call::kListen);
  return error != 0 ? error : connections_.listen(id, backlog);
}

std::uint16_t SoftwareRnic::local_port(rdma_cm_id* id) { return port_of(id->route.addr.src_addr); }

int SoftwareRnic::resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination,
                               int /*timeout_ms*/) {
  const int error = adapter_.refused(Call::kResolveAddr);
  return error != 0 ? error : connections_.resolve_addr(id, source, *destination);
}

int SoftwareRnic::resolve_route(rdma_cm_id* id, int /*timeout_ms*/) {
  const int error = adapter_.refused(Call::kResolveRoute);
  return error != 0 ? error : connections_.resolve_route(id);
}

int SoftwareRnic::create_qp(rdma_cm_id* id, ibv_pd* domain, ibv_qp_init_attr* attributes) {
  if (const int error = adapter_.refused(Call::kCreateQp); error != 0) return error;
  if (id->verbs == nullptr || id->qp != nullptr || domain == nullptr ||
      domain->context != id->verbs || attributes->qp_type != IBV_QPT_RC ||
      attributes->srq != nullptr || attributes->send_cq == nullptr ||
      attributes->recv_cq == nullptr) {
    return EINVAL;
  }
  const RnicOptions& options = adapter_.device_of(id->verbs)->options;
  ibv_qp_cap& caps = attributes->cap;
  const auto most_requests = static_cast<std::uint32_t>(options.max_qp_wr);
  const auto most_pieces = static_cast<std::uint32_t>(options.max_sge);
  if (caps.max_send_wr > most_requests || caps.max_recv_wr > most_requests ||
      caps.max_send_sge > most_pieces || caps.max_recv_sge > most_pieces ||
      caps.max_inline_data > options.max_inline_data) {
    return EINVAL;
  }
  caps.max_inline_data =
      std::min((caps.max_inline_data + kInlineStep - 1) / kInlineStep * kInlineStep,
               options.max_inline_data);
  auto pair = std::make_shared<QueuePair>(adapter_, domain, *attributes);
  {
    const std::lock_guard lock(adapter_.objects);
    if (adapter_.pairs.size() >= static_cast<std::size_t>(options.max_qp)) return ENOMEM;
    adapter_.pairs.emplace(pair.get(), pair);
    ++queue_of(attributes->send_cq).users;
    ++queue_of(attributes->recv_cq).users;
  }
  pair->modify(IBV_QPS_INIT);
  connections_.set_pair(id, pair);
  id->qp = pair.get();
  return 0;
}

void SoftwareRnic::destroy_qp(rdma_cm_id* id) {
  std::shared_ptr<QueuePair> gone;
  {
    const std::lock_guard lock(adapter_.objects);
    const auto at = adapter_.pairs.find(id->qp);
    if (at == adapter_.pairs.end()) {
      adapter_.complain("destroy_qp of what is none");
      return;
    }
    gone = at->second;
  }
  gone->destroy();
  adapter_.pair_failed(*gone);
  connections_.set_pair(id, nullptr);
  id->qp = nullptr;
  adapter_.forget_events(gone->context, static_cast<ibv_qp*>(gone.get()));
  const std::lock_guard lock(adapter_.objects);
  adapter_.pairs.erase(gone.get());
  --queue_of(gone->send_cq).users;
  --queue_of(gone->recv_cq).users;
}

int SoftwareRnic::connect(rdma_cm_id* id, rdma_conn_param* parameters) {
  const int error = adapter_.refused(Call::kConnect);
  return error != 0 ? error : connections_.connect(id, *parameters);
}

int SoftwareRnic::accept(rdma_cm_id* id, rdma_conn_param* parameters) {
  const int error = adapter_.refused(Call::kAccept);
  return error != 0 ? error : connections_.accept(id, parameters);
}

int SoftwareRnic::reject(rdma_cm_id* id) { return connections_.reject(id); }

int SoftwareRnic::disconnect(rdma_cm_id* id) { return connections_.disconnect(id); }

int SoftwareRnic::set_option(rdma_cm_id* /*id*/, int level, int /*name*/, void* value,
                             std::size_t bytes) {
  return level == RDMA_OPTION_ID && value != nullptr && bytes > 0 ? 0 : ENOSYS;
}

}  // namespace farwrite::verbs_double
