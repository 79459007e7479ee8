// Where the segments of a device lie: on the NUMA node that the user names, or near the adapter.
//
// A device uses one adapter. Other adapters of the machine have no say: they move none of its
// bytes.
#pragma once

#include <memory>
#include <vector>

#include "fabric/fabric.h"
#include "farwrite/status.h"
#include "memory/page_policy.h"

namespace farwrite::device {

// `numa_node`: DeviceOptions::numa_node. For kNodeOfAdapter, the node of the first fabric that has
// one; if the kernel refuses that node, one warning says so and the kernel chooses. An error if the
// kernel refuses the node that the user names, so that a device does not open which would find no
// memory later.
Result<memory::NumaPlacement> choose_placement(
    int numa_node, const std::vector<std::unique_ptr<fabric::Fabric>>& fabrics);

}  // namespace farwrite::device
