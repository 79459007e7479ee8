#include "simulated/simulated_kind.h"

#include <memory>
#include <string>
#include <vector>

#include "simulated/simulated_fabric.h"

namespace farwrite::fabric {

FabricEntry simulated_entry(SimulatedNetwork& network) {
  FabricEntry entry;
  entry.kind = kSimulated;
  entry.make = [&network](core::EventLoop& /*loop*/, const DeviceOptions& /*options*/) {
    return Result<std::unique_ptr<Fabric>>(std::make_unique<SimulatedFabric>(network));
  };
  entry.describe = [](const DeviceOptions& /*options*/) {
    return Result<std::vector<std::string>>({"devices of this process, in one network"});
  };
  return entry;
}

}  // namespace farwrite::fabric
