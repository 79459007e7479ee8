// What a graph says of the memory that a tensor to another task lies in.
//
// The rendezvous cannot see that a tensor comes from a ref variable, whose memory changes under
// the thread that looks at it.
#pragma once

#include "edges/edges.h"
#include "tensorflow/core/graph/graph.h"

namespace farwrite::plugin {

// Before look_back, for every graph: remembers whether this process has seen a ref variable.
void look_for_ref_variables(const tensorflow::Graph& graph);

// Follows the tensor of a `_Send` from its producer back, as far as its memory may come from.
EdgeFacts look_back(const tensorflow::Node& send);

}  // namespace farwrite::plugin
