#include "device/placement.h"

#include <algorithm>
#include <string>

#include "core/log.h"

namespace farwrite::device {

Result<memory::NumaPlacement> choose_placement(
    int numa_node, const std::vector<std::unique_ptr<fabric::Fabric>>& fabrics) {
  if (numa_node != kNodeOfAdapter) {
    const memory::NumaPlacement named{.node = numa_node, .required = true};
    FARWRITE_RETURN_IF_ERROR(memory::check_placement(named));
    return named;
  }
  const auto fabric = std::find_if(fabrics.begin(), fabrics.end(), [](const auto& one) {
    return one->capabilities().numa_node >= 0;
  });
  if (fabric == fabrics.end()) return memory::NumaPlacement();
  const int node = (*fabric)->capabilities().numa_node;
  const std::string where = "NUMA node " + std::to_string(node) + ", the node of the adapter of " +
                            std::string(to_string((*fabric)->kind()));
  const memory::NumaPlacement placement{.node = node, .required = false};
  if (const Status refused = memory::check_placement(placement); !refused.ok()) {
    core::log(core::LogLevel::kWarning,
              "memory does not lie on " + where + ": " + refused.message());
    return memory::NumaPlacement();
  }
  core::log(core::LogLevel::kInfo, "memory lies on " + where);
  return placement;
}

}  // namespace farwrite::device
