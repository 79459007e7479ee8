#include "simulated/simulated_world.h"

#include <chrono>
#include <utility>

#include "core/mutex.h"

namespace farwrite::fabric {

std::string simulated_address(const Host& host) { return "simulated:" + std::to_string(host.id); }

Trace SimulatedWorld::trace() const {
  const core::Lock lock(mutex_);
  return trace_;
}

std::shared_ptr<Host> SimulatedWorld::add_host() {
  const core::Lock lock(mutex_);
  auto host = std::make_shared<Host>();
  host->id = ++last_host_;
  hosts_.emplace(host->id, host);
  return host;
}

void SimulatedWorld::remove_host(const std::shared_ptr<Host>& host) {
  const core::Lock lock(mutex_);
  hosts_.erase(host->id);
}

std::vector<std::string> SimulatedWorld::addresses() const {
  const core::Lock lock(mutex_);
  std::vector<std::string> result;
  for (const auto& [id, host] : hosts_) result.push_back(simulated_address(*host));
  return result;
}

std::shared_ptr<Host> SimulatedWorld::find(std::string_view address) const {
  for (const auto& [id, host] : hosts_) {
    if (simulated_address(*host) == address) return host;
  }
  return nullptr;
}

std::vector<std::shared_ptr<Connection>> SimulatedWorld::connections_of(const Host& host) {
  std::vector<std::shared_ptr<Connection>> result;
  std::erase_if(connections_, [](const auto& connection) { return connection.expired(); });
  for (const auto& weak : connections_) {
    if (auto connection = weak.lock(); connection != nullptr && connection->involves(host)) {
      result.push_back(std::move(connection));
    }
  }
  return result;
}

void SimulatedWorld::kill(std::string_view address) {
  Outcomes outcomes;
  {
    const core::Lock lock(mutex_);
    const std::shared_ptr<Host> host = find(address);
    if (host == nullptr) return;
    host->alive = false;
    hosts_.erase(host->id);
    for (const auto& connection : connections_of(*host)) connection->kill(*host, outcomes);
  }
  paired_.notify_all();
  outcomes.tell();
}

void SimulatedWorld::partition(std::string_view address, bool partitioned) {
  const core::Lock lock(mutex_);
  const std::shared_ptr<Host> host = find(address);
  if (host == nullptr) return;
  host->partitioned = partitioned;
  for (const auto& connection : connections_of(*host)) connection->ring_all();
}

Result<SimulatedWorld::Seat> SimulatedWorld::attach(const std::shared_ptr<Host>& host,
                                                    const AttachRequest& request) {
  const auto unavailable = [&](std::string_view cause, std::string_view remedy) {
    return Status::error(StatusCode::kUnavailable, {"attach", request.peer_name, "simulated"},
                         cause, remedy);
  };
  const core::Lock lock(mutex_);
  if (!host->alive) {
    return unavailable("this simulated host was killed", "open a new device");
  }
  if (request.connecting) {
    const std::shared_ptr<Host> peer = find(request.peer_address);
    if (peer == nullptr) {
      return unavailable("no fabric of this network has address \"" + request.peer_address + "\"",
                         "give both devices the same simulated_network");
    }
    if (peer->partitioned) {
      return unavailable("the peer is partitioned from the network", "try again once it is back");
    }
  }
  if (host->partitioned) {
    return unavailable("this host is partitioned from the network", "try again once it is back");
  }

  Seat seat;
  const auto waiting = waiting_.find(request.secret);
  if (waiting != waiting_.end()) {
    seat.connection = waiting->second.lock();
    seat.side = 1;
    waiting_.erase(waiting);
    if (seat.connection == nullptr || !seat.connection->broken(0, "attach").ok()) {
      return unavailable("the peer abandoned the connection", "connect again");
    }
    if (seat.connection->lanes(0) != request.lanes) {
      return Status::error(StatusCode::kInvalidArgument, {"attach", request.peer_name, "simulated"},
                           "the two sides ask for different numbers of lanes",
                           "agree on one number in the handshake");
    }
  } else {
    seat.connection = std::make_shared<Connection>(options_, ++last_connection_, trace_);
  }
  FARWRITE_RETURN_IF_ERROR(seat.connection->attach(seat.side, host, request));
  if (seat.side == 0) {
    connections_.push_back(seat.connection);
    waiting_[request.secret] = seat.connection;
  } else {
    seat.connection->ring_all();  // what the first side posted can travel now
    paired_.notify_all();
  }
  return seat;
}

bool SimulatedWorld::wait_until_paired(const Connection& connection, core::Deadline deadline) {
  const auto over = [&] { return connection.paired() || !connection.broken(0, "open").ok(); };
  while (!over()) {
    if (deadline.expired()) return false;
    if (deadline.is_never()) {
      paired_.wait(mutex_);
    } else {
      paired_.wait_for(mutex_, deadline.remaining());
    }
  }
  return true;
}

std::uint64_t SimulatedWorld::new_key() { return ++last_key_; }

}  // namespace farwrite::fabric
