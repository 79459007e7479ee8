// SimulatedFabric: one device's place in a SimulatedNetwork.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "core/counter.h"
#include "fabric/fabric.h"
#include "simulated/simulated_kind.h"
#include "simulated/simulated_network.h"

namespace farwrite::fabric {

// In-process and without threads: the thread that polls a link moves what is on its wire, both
// ways. Thread-safe.
class SimulatedFabric final : public Fabric {
 public:
  explicit SimulatedFabric(SimulatedNetwork& network);
  // Leaves the network normally; links end by themselves.
  ~SimulatedFabric() override;

  FabricKind kind() const override { return kSimulated; }
  const Capabilities& capabilities() const override { return capabilities_; }
  Result<std::uint64_t> register_segment(const std::shared_ptr<memory::Segment>& segment) override;
  // Registers nothing, but counts, as an adapter would.
  Result<std::shared_ptr<const void>> register_memory(ByteView memory, bool writable) override;
  AdapterStats registration_counters() const override;
  std::string address() const override;
  Result<std::unique_ptr<Link>> attach(const AttachRequest& request) override;

 private:
  const std::shared_ptr<SimulatedWorld> world_;
  const std::shared_ptr<Host> host_;
  Capabilities capabilities_;
  struct Registrations {
    core::Counter made, made_bytes, released, released_bytes;
  };
  const std::shared_ptr<Registrations> registrations_ = std::make_shared<Registrations>();
};

}  // namespace farwrite::fabric
