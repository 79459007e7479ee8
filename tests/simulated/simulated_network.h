// SimulatedNetwork: the world of simulated fabrics: a seeded adversary inside one process.
//
// Everything by chance comes from one seed, so a single thread that drives it sees the same run
// again, packet by packet. With several threads the order of their calls is theirs.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "simulated/connection.h"
#include "simulated/simulated_options.h"

namespace farwrite::fabric {

class SimulatedWorld;

// For tests only. Fabrics and links keep the world alive, so the order of destruction is free.
// Thread-safe.
class SimulatedNetwork {
 public:
  explicit SimulatedNetwork(SimulatedOptions options = {});
  ~SimulatedNetwork();
  SimulatedNetwork(const SimulatedNetwork&) = delete;
  SimulatedNetwork& operator=(const SimulatedNetwork&) = delete;

  const SimulatedOptions& options() const;

  // The fabrics alive now, oldest first.
  std::vector<std::string> addresses() const;

  // The fabric's process dies. What it had on the wire is gone, what had arrived stays. Operations
  // of its peers end with kPeerDead and their observers are notified, in this thread. A restart is
  // a new fabric with a new address. An unknown address is ignored.
  void kill(std::string_view address);
  // While true, nothing reaches the fabric and nothing of it reaches a peer; no observer is told.
  // With false the wire goes on where it stopped. New channels are refused meanwhile.
  void partition(std::string_view address, bool partitioned);

  Trace trace() const;

  const std::shared_ptr<SimulatedWorld>& world() const { return world_; }

 private:
  const std::shared_ptr<SimulatedWorld> world_;
};

}  // namespace farwrite::fabric
