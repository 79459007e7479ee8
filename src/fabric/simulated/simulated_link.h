// SimulatedLink: one side of a simulated connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fabric/fabric.h"
#include "fabric/simulated/connection.h"
#include "fabric/simulated/simulated_world.h"

namespace farwrite::fabric {

// Thread-safe. The destructor must not run inside the observer's callback.
class SimulatedLink final : public Link {
 public:
  SimulatedLink(std::shared_ptr<SimulatedWorld> world, std::shared_ptr<Connection> connection,
                SideIndex side, std::string peer_name);
  ~SimulatedLink() override;

  Result<std::uint64_t> grant(const std::shared_ptr<memory::Segment>& segment, std::uint64_t offset,
                              std::uint64_t length, std::uint64_t region_id) override;
  // The target checks keys itself, so this never waits for the peer.
  Status revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline) override;
  Result<std::shared_ptr<RemoteWindow>> import(const RegionDescriptor& descriptor,
                                               core::Deadline deadline) override;
  Completion post(const Operation& operation) override;
  Progress poll(std::uint32_t lane, EventSink& sink) override;
  Doorbell arm(std::uint32_t lane) override;
  LinkCounters counters() const override;

 private:
  ErrorContext where(std::string_view operation) const {
    return {operation, peer_name_, "simulated"};
  }

  const std::shared_ptr<SimulatedWorld> world_;
  const std::shared_ptr<Connection> connection_;
  const SideIndex side_;
  const std::string peer_name_;
};

}  // namespace farwrite::fabric
