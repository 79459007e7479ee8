// The edges between tasks of a saved graph that nothing runs: `farwrite tensorflow analyze`.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace farwrite::plugin {

// Both take a serialized GraphDef.

// Inlines function calls and lowers loops and branches, as TensorFlow does before it places a
// graph. Returns a GraphDef.
absl::StatusOr<std::string> lower_graph(const std::string& graph_def);

// The edges of a graph whose nodes say their devices, as edges_json.
absl::StatusOr<std::string> analyze_graph(const std::string& graph_def);

}  // namespace farwrite::plugin
