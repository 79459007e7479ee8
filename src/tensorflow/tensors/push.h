// The sending half: from a tensor to a push.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "peers/route.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

class Runtime;

// What one push is about.
struct Outgoing {
  std::int64_t step = 0;
  std::uint64_t start = 0;   // of the step here
  std::uint64_t sender = 0;  // own server's incarnation
  tensorflow::Rendezvous::ParsedKey key;
  tensorflow::Tensor tensor;
  bool dead = false;
  bool host_memory = true;  // the tensor's bytes are where this CPU reads them
};

// Pushes, or tells the receiver to ask by RPC; never blocks, and copies at most the tensor. `route`
// is resolved to kPush. `keep` puts the tensor where RecvTensor finds it: called before the
// receiver is told to ask, and when the push fails, as stock leaves it for a receiver that has
// gone. An error means that a live receiver will wait in vain: end the step.
absl::Status push(Runtime& runtime, const Route& route, const Outgoing& outgoing,
                  const std::function<void()>& keep);

// Tells the receiver that this server has cleaned up what it started of the step until `start`.
void push_step_gone(const Route& route, std::uint64_t sender, std::int64_t step,
                    std::uint64_t start);

}  // namespace farwrite::plugin
