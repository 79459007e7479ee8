// The sending half: from a tensor to a push.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "peer/route.h"
#include "tensor/arrival_table.h"
#include "tensorflow/core/framework/rendezvous.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// Where the bytes of a tensor are that is sent.
enum class Origin : std::uint8_t {
  kHost,
  kStaged,        // in host memory, copied there out of the memory of a device
  kDeviceNoRoom,  // in the memory of a device: registered memory had no room for a copy
  kDeviceHeld,    // in the memory of a device: the peer had too much that it had not requested
};

// What one push is about.
struct OutgoingTensor {
  std::int64_t step = 0;
  std::uint64_t start = 0;   // of the step here
  std::uint64_t sender = 0;  // own server's incarnation
  tensorflow::Rendezvous::ParsedKey key;
  tensorflow::Tensor tensor;
  bool dead = false;
  Origin origin = Origin::kHost;
  std::int64_t started = 0;  // of kStaged: TransferLog::start() when the copy began
  absl::Status failure;      // why there is no tensor: what the receiver ends with
};

// Pushes, or tells the receiver to ask by RPC; never blocks, and copies at most the tensor. `route`
// is resolved to kPush; a tensor for this process itself goes into `arrivals`. `keep` puts the
// tensor where RecvTensor finds it: called before the receiver is told to ask, and when the push
// fails, as stock leaves it for a receiver that has gone. An error means that a live receiver will
// wait in vain: end the step.
absl::Status push(fw_device* device, ArrivalTable& arrivals, const Route& route,
                  const OutgoingTensor& outgoing, const std::function<void()>& keep);

// Tells the receiver that this server has cleaned up what it started of the step until `start`.
void push_step_gone(ArrivalTable& arrivals, const Route& route, std::uint64_t sender,
                    std::int64_t step, std::uint64_t start);

}  // namespace farwrite::plugin
