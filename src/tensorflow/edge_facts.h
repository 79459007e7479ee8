// EdgeFacts: what a look at the partitioned graph says of an edge between tasks.
//
// The rendezvous cannot see that a tensor comes from a ref variable, whose memory changes under
// whoever looks at it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "tensorflow/core/framework/rendezvous.h"

namespace farwrite::plugin {

struct EdgeFacts {
  bool ref = false;       // it may be the memory of a ref variable
  bool variable = false;  // the producer reads a variable
};

// What is known of the edge; nothing if no pass saw it. Thread-safe.
EdgeFacts facts_of(const tensorflow::RendezvousInterface::ParsedKey& key);

}  // namespace farwrite::plugin
