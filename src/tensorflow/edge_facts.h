// EdgeFacts: what a look at the partitioned graph says of an edge between tasks.
//
// Two things no rendezvous can see: that a tensor comes from a ref variable, whose memory changes
// under whoever looks at it, and that it goes to a kernel that writes into its input whatever its
// reference count.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensorflow/core/framework/rendezvous.h"

namespace farwrite::plugin {

struct EdgeFacts {
  bool ref = false;       // the producer's output is of a ref type, or passes one on
  bool variable = false;  // the producer reads a variable
  bool in_place = false;  // it may reach a kernel that writes into its input
};

// What is known of the edge; nothing if no pass saw it. Thread-safe.
EdgeFacts facts_of(const tensorflow::RendezvousInterface::ParsedKey& key);

// Whether kernels of this op write into an input without asking for its reference count.
bool writes_in_place(const std::string& op);

}  // namespace farwrite::plugin
