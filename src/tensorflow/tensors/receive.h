// The receiving half: from a notification to a tensor.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "farwrite/c_api.h"
#include "rendezvous/arrival_table.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

class PeerProcess;

// Takes what a peer pushed into the arrival table. On a thread of the channel: it copies inline
// bytes, and the step that waits for them goes on in it. An error: the peer broke the protocol.
absl::Status receive(const fw_notification& notification, const std::shared_ptr<PeerProcess>& peer,
                     ArrivalTable& arrivals);

// The same for a tensor that a peer wrote into a slot.
absl::Status receive_landed(const fw_landing& landing, const std::shared_ptr<PeerProcess>& peer,
                            ArrivalTable& arrivals);

// Makes the tensor of an arrival other than kPull and kStepGone: inline and fetched ones are there
// already, lent ones become a tensor over the sender's memory, read-only, whose end returns the
// lease.
// The arrival must be ready.
absl::Status materialize(Arrival arrival, tensorflow::Tensor* tensor);
// Makes the tensor of an arrival that is a variant, serialized or handed over, with the variant's
// parts in the memory of the device. Waits for the device.
absl::Status materialize_on(tensorflow::Device* device,
                            const tensorflow::AllocatorAttributes& attributes,
                            const Arrival& arrival, tensorflow::Tensor* tensor);
// Whether the arrival is a tensor in TensorFlow's own proto.
bool serialized(const Arrival& arrival);
// Whether materialize() answers at once.
bool ready(const Arrival& arrival);
// The lent bytes of an arrival, where they lie. The arrival must be ready.
absl::Status look(const Arrival& arrival, const void** data);
// Waits for the peer until the arrival is ready. kCancelled once `given_up`, which is asked again
// and again: nobody waits for the arrival any more.
absl::Status wait_until_ready(const Arrival& arrival, const std::function<bool()>& given_up);
// kInternal unless a peer lent as many bytes as it announced.
absl::Status check_lent_bytes(std::uint64_t lent, std::uint64_t expected);

// Tensors over a peer's memory that are alive now.
std::int64_t held_views();

}  // namespace farwrite::plugin
