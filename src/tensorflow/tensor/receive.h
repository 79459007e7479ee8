// The receiving half: from a notification to a tensor.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "farwrite/c_api.h"
#include "peer/receiver.h"
#include "tensor/arrival_table.h"
#include "tensorflow/core/common_runtime/device.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// Takes what peers push into the arrival table. Inline bytes are copied on the thread of the
// channel, and the step that waits for them goes on in it.
class PushReceiver final : public Receiver {
 public:
  ArrivalTable& arrivals() { return arrivals_; }

  absl::Status take(const std::shared_ptr<PeerProcess>& peer, std::string_view message,
                    View lent) override;
  absl::Status take_landed(const std::shared_ptr<PeerProcess>& peer,
                           const fw_landing& landing) override;
  void peer_ended(const std::shared_ptr<PeerProcess>& peer, const absl::Status& why) override;

  // Lets the peer push again that was told to keep its tensors, if its backlog is small.
  static void resume(const std::shared_ptr<PeerProcess>& peer);

 private:
  ArrivalTable arrivals_;
};

// Makes the tensor of an arrival other than kPull and kStepGone: inline and fetched ones are there
// already, lent ones become a tensor over the sender's memory, read-only, whose end returns the
// lease.
// The arrival must be ready.
absl::Status materialize(ArrivedTensor arrival, tensorflow::Tensor* tensor);
// Makes the tensor of an arrival that is a variant, serialized or handed over, with the variant's
// parts in the memory of the device. Waits for the device.
absl::Status materialize_on(tensorflow::Device* device,
                            const tensorflow::AllocatorAttributes& attributes,
                            const ArrivedTensor& arrival, tensorflow::Tensor* tensor);
// Whether the arrival is a tensor in TensorFlow's own proto.
bool serialized(const ArrivedTensor& arrival);
// Whether materialize() answers at once.
bool ready(const ArrivedTensor& arrival);
// The lent bytes of an arrival, where they lie. The arrival must be ready.
absl::Status look(const ArrivedTensor& arrival, const void** data);
// Waits for the peer until the arrival is ready. kCancelled once `given_up`, which is asked again
// and again: nothing waits for the arrival any more.
absl::Status wait_until_ready(const ArrivedTensor& arrival, const std::function<bool()>& given_up);
// kInternal unless a peer lent as many bytes as it announced.
absl::Status check_lent_bytes(std::uint64_t lent, std::uint64_t expected);

// Tensors over a peer's memory that are alive now.
std::int64_t held_views();

}  // namespace farwrite::plugin
