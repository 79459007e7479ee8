// The verbs fabric's door: what the device layer and `farwrite info` see of it.
//
// No header of libibverbs in here: a build without them has verbs, too, as one that says why not.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/event_loop.h"
#include "fabric/fabric.h"
#include "farwrite/options.h"
#include "farwrite/status.h"

namespace farwrite::fabric {

// kUnavailable, with the reason and what to do: no library, no device, no port that is up; or this
// build was made without the headers. The loop outlives the fabric.
Result<std::unique_ptr<Fabric>> make_verbs_fabric(core::EventLoop& loop,
                                                  const DeviceOptions& options);

// One line for each address that peers can reach by verbs, the first one first in line; or why
// there is none.
FARWRITE_API Result<std::vector<std::string>> describe_verbs(const VerbsOptions& options = {});

}  // namespace farwrite::fabric
