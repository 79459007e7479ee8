// Every kind of fabric: how it is made, and whether this machine has it.
//
// The one place that names them. The layers above choose by Capabilities, and a user by FabricKind.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/event_loop.h"
#include "fabric/fabric.h"
#include "farwrite/export.h"
#include "farwrite/options.h"
#include "farwrite/status.h"

namespace farwrite::fabric {

// kUnavailable when this machine or this build lacks what it needs, with the reason and what to do.
// The loop outlives the fabric.
Result<std::unique_ptr<Fabric>> make_fabric(FabricKind kind, core::EventLoop& loop,
                                            const DeviceOptions& options);

// Those of `options.fabrics`, in their order. One that needs hardware which this machine lacks is
// left out, and logged, if the list has others.
Result<std::vector<std::unique_ptr<Fabric>>> make_fabrics(core::EventLoop& loop,
                                                          const DeviceOptions& options);

// What `farwrite info` says of a fabric.
struct FabricReport {
  FabricKind kind = FabricKind::kShm;
  bool usable = false;
  std::string reason;             // why not; or whom it reaches, or by which address
  std::vector<std::string> more;  // further addresses
};
// One for each kind, the best first.
FARWRITE_API std::vector<FabricReport> describe_fabrics(const DeviceOptions& options);

}  // namespace farwrite::fabric
