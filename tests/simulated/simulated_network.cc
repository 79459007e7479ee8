#include "simulated/simulated_network.h"

#include "simulated/simulated_world.h"

namespace farwrite::fabric {

std::string_view to_string(Lowering lowering) {
  switch (lowering) {
    case Lowering::kCorrect:
      return "correct";
    case Lowering::kNotificationBeforeData:
      return "notification before data";
    case Lowering::kTailFlag:
      return "tail flag";
    case Lowering::kUnsequenced:
      return "unsequenced";
    case Lowering::kEarlyFlush:
      return "early flush";
    case Lowering::kLateBytes:
      return "late bytes";
    case Lowering::kUnfetchedSource:
      return "unfetched source";
  }
  return "unknown lowering";
}

SimulatedNetwork::SimulatedNetwork(SimulatedOptions options)
    : world_(std::make_shared<SimulatedWorld>(options)) {}

SimulatedNetwork::~SimulatedNetwork() = default;

const SimulatedOptions& SimulatedNetwork::options() const { return world_->options(); }

std::vector<std::string> SimulatedNetwork::addresses() const { return world_->addresses(); }

void SimulatedNetwork::kill(std::string_view address) { world_->kill(address); }

void SimulatedNetwork::partition(std::string_view address, bool partitioned) {
  world_->partition(address, partitioned);
}

Trace SimulatedNetwork::trace() const { return world_->trace(); }

}  // namespace farwrite::fabric
