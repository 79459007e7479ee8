// Every kind of fabric: how it is made, and whether this machine has it.
//
// Only fabrics.cc names the kinds. The layers above choose by Capabilities, users by FabricKind.
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

// One fabric. kUnavailable if this machine or this build cannot have it; the sentence says why, and
// what to do. The loop outlives the fabric.
Result<std::unique_ptr<Fabric>> make_fabric(FabricKind kind, core::EventLoop& loop,
                                            const DeviceOptions& options);

// The fabrics of `options.fabrics`, in that order. A fabric whose hardware this machine lacks is
// left out if the list has others, and a log line reports it.
Result<std::vector<std::unique_ptr<Fabric>>> make_fabrics(core::EventLoop& loop,
                                                          const DeviceOptions& options);

// What `farwrite info` shows of a fabric.
struct FabricReport {
  FabricKind kind = FabricKind::kShm;
  bool usable = false;
  std::string reason;             // why it is not usable; or its peers, or its address
  std::vector<std::string> more;  // further addresses
};
// A report for each kind, best first.
FARWRITE_API std::vector<FabricReport> describe_fabrics(const DeviceOptions& options);

}  // namespace farwrite::fabric
