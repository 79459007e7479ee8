// SimulatedWorld: the hosts and connections of one network, under one lock.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "core/deadline.h"
#include "core/mutex.h"
#include "fabric/fabric.h"
#include "simulated/connection.h"
#include "simulated/simulated_options.h"

namespace farwrite::fabric {

// Thread-safe. What links do with their connection, they do under mutex(): one lock for everything
// makes a landing byte happen before all that is told about it.
class SimulatedWorld {
 public:
  explicit SimulatedWorld(SimulatedOptions options) : options_(options) {}

  const SimulatedOptions& options() const { return options_; }
  core::Mutex& mutex() FW_RETURN_CAPABILITY(mutex_) { return mutex_; }
  Trace trace() const;

  std::shared_ptr<Host> add_host();
  void remove_host(const std::shared_ptr<Host>& host);
  std::vector<std::string> addresses() const;
  void kill(std::string_view address);
  void partition(std::string_view address, bool partitioned);

  // A side of a connection. The first caller with a secret waits for nothing; the second is its
  // peer. kUnavailable when the host at request.peer_address, or the first caller's, is gone.
  struct Seat {
    std::shared_ptr<Connection> connection;
    SideIndex side = 0;
  };
  Result<Seat> attach(const std::shared_ptr<Host>& host, const AttachRequest& request);
  // Blocks until the connection has both sides. False at the deadline.
  bool wait_until_paired(const Connection& connection, core::Deadline deadline)
      FW_REQUIRES(mutex());

  std::uint64_t new_key() FW_REQUIRES(mutex());

 private:
  std::shared_ptr<Host> find(std::string_view address) const FW_REQUIRES(mutex_);
  std::vector<std::shared_ptr<Connection>> connections_of(const Host& host) FW_REQUIRES(mutex_);

  const SimulatedOptions options_;
  mutable core::Mutex mutex_{core::LockRank::kFabric};
  core::CondVar paired_;
  Trace trace_ FW_GUARDED_BY(mutex_);
  std::uint64_t last_host_ FW_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_connection_ FW_GUARDED_BY(mutex_) = 0;
  std::uint64_t last_key_ FW_GUARDED_BY(mutex_) = 0;
  std::map<std::uint64_t, std::shared_ptr<Host>> hosts_ FW_GUARDED_BY(mutex_);  // alive, by id
  std::vector<std::weak_ptr<Connection>> connections_ FW_GUARDED_BY(mutex_);
  std::map<std::array<std::byte, 32>, std::weak_ptr<Connection>> waiting_
      FW_GUARDED_BY(mutex_);  // by secret
};

// "simulated:7"
std::string simulated_address(const Host& host);

}  // namespace farwrite::fabric
