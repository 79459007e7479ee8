// ConnectionManager: rdma_cm of a software RNIC (RDMA_PS_TCP, reliable connections).
//
// As with the real one, part of the work happens in get_cm_event(): the side that connects takes
// its queue pair to RTS when it fetches the answer, and only then does the other side get
// ESTABLISHED. On InfiniBand and RoCE, DISCONNECTED leaves the queue pair of its receiver as it is;
// on iWARP, it is in error by then.
#pragma once

#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "verbs_double/adapter.h"
#include "verbs_double/network.h"
#include "verbs_double/queue_pair.h"

namespace farwrite::verbs_double {

struct CmId;

struct CmEvent : rdma_cm_event {
  CmEvent() : rdma_cm_event{} {}

  std::shared_ptr<CmId> owner;    // whose destroy_id() waits for the acknowledgement
  std::shared_ptr<CmId> subject;  // the new id of a connection request
  std::vector<std::byte> data;
};

struct CmChannel : rdma_event_channel {
  EventQueue<std::unique_ptr<CmEvent>> events;
};

enum class CmState {
  kIdle,
  kBound,
  kListening,
  kAddressResolved,
  kRouteResolved,
  kConnecting,  // asked
  kRequested,   // was asked
  kAccepted,    // accepted, and has no event yet that it arrived
  kConnected,
  kDisconnecting,  // said goodbye
  kPeerLeft,       // was told goodbye
  kOver,
};

// All under Network::lock, but for what rdma_cm_id shows to its user.
struct CmId : rdma_cm_id, std::enable_shared_from_this<CmId> {
  CmId() : rdma_cm_id{} {}
  std::shared_ptr<CmId> self() { return shared_from_this(); }
  bool iwarp() const { return device != nullptr && device->options.transport == Transport::kIwarp; }

  Adapter* adapter = nullptr;  // null once that is gone
  Device* device = nullptr;
  std::uint8_t device_port = 0;
  CmState state = CmState::kIdle;
  bool destroyed = false;
  std::weak_ptr<CmId> peer;
  std::weak_ptr<QueuePair> pair;
  int backlog = 0;
  int requests = 0;        // that nothing has fetched
  rdma_conn_param said{};  // what it gave to connect() or accept()
  std::uint64_t events_taken = 0;
  std::uint64_t events_acked = 0;
};

inline CmId& state_of(rdma_cm_id* id) { return *static_cast<CmId*>(id); }

// Stateless but for what it makes. Thread-safe.
class ConnectionManager {
 public:
  explicit ConnectionManager(Adapter& adapter) : adapter_(adapter), network_(*adapter.network) {}

  rdma_event_channel* create_channel();
  void destroy_channel(rdma_event_channel* channel);
  int get_event(rdma_event_channel* channel, rdma_cm_event** event);
  int ack_event(rdma_cm_event* event);

  int create_id(rdma_event_channel* channel, rdma_cm_id** id);
  int destroy_id(rdma_cm_id* id);
  int migrate_id(rdma_cm_id* id, rdma_event_channel* channel);
  int bind(rdma_cm_id* id, const sockaddr& address);
  int listen(rdma_cm_id* id, int backlog);
  int resolve_addr(rdma_cm_id* id, const sockaddr* source, const sockaddr& destination);
  int resolve_route(rdma_cm_id* id);
  int connect(rdma_cm_id* id, const rdma_conn_param& parameters);
  int accept(rdma_cm_id* id, const rdma_conn_param* parameters);
  int reject(rdma_cm_id* id);
  int disconnect(rdma_cm_id* id);
  void set_pair(rdma_cm_id* id, const std::shared_ptr<QueuePair>& pair);
  void device_removed(const Device& device);
  std::size_t live() const;  // ids

 private:
  int bind_locked(CmId& id, const sockaddr& address);
  int check_parameters(const CmId& id, rdma_conn_param* parameters, std::size_t most_data) const;
  std::shared_ptr<CmId> listener_for(const sockaddr& address);
  // False: the event is dropped.
  bool fetched(CmEvent& event);

  Adapter& adapter_;
  Network& network_;
};

// The transport below an iWARP connection broke.
void connection_lost(Network& network, const QueuePair& pair);

}  // namespace farwrite::verbs_double
