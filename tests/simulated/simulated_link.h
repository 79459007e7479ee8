// SimulatedLink: one side of a simulated connection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fabric/fabric.h"
#include "simulated/connection.h"
#include "simulated/simulated_world.h"

namespace farwrite::fabric {

// One lane of it. Thread-safe.
class SimulatedLane final : public Lane {
 public:
  SimulatedLane(std::shared_ptr<SimulatedWorld> world, std::shared_ptr<Connection> connection,
                SideIndex side, std::uint32_t index)
      : world_(std::move(world)), connection_(std::move(connection)), side_(side), index_(index) {}

  Completion post(const Operation& operation) override;
  Progress poll(EventSink& sink) override;
  Doorbell arm() override;

 private:
  const std::shared_ptr<SimulatedWorld> world_;
  const std::shared_ptr<Connection> connection_;
  const SideIndex side_;
  const std::uint32_t index_;
};

// Thread-safe. The destructor must not run inside the observer's callback.
class SimulatedLink final : public Link {
 public:
  SimulatedLink(std::shared_ptr<SimulatedWorld> world, std::shared_ptr<Connection> connection,
                SideIndex side, std::string peer_name);
  ~SimulatedLink() override;

  Lane& lane(std::uint32_t index) override { return *lanes_[index]; }
  Result<std::uint64_t> grant(const std::shared_ptr<memory::Segment>& segment, std::uint64_t offset,
                              std::uint64_t length, std::uint64_t region_id) override;
  // The target checks keys itself, so this never waits for the peer.
  Status revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline) override;
  Result<std::shared_ptr<RemoteWindow>> import(const RegionDescriptor& descriptor,
                                               core::Deadline deadline) override;
  LinkCounters counters() const override;

 private:
  ErrorContext where(std::string_view operation) const {
    return {operation, peer_name_, "simulated"};
  }

  const std::shared_ptr<SimulatedWorld> world_;
  const std::shared_ptr<Connection> connection_;
  const SideIndex side_;
  const std::string peer_name_;
  std::vector<std::unique_ptr<SimulatedLane>> lanes_;
};

}  // namespace farwrite::fabric
