// The receiving half: from a notification to a tensor.
#pragma once

#include <cstdint>

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
                    RemoteBytes lent) override;
  absl::Status take_landed(const std::shared_ptr<PeerProcess>& peer,
                           const fw_landing& landing) override;
  void peer_ended(const std::shared_ptr<PeerProcess>& peer, const absl::Status& why) override;

  // Lets the peer push again that was told to keep its tensors, if its backlog is small.
  static void resume(const std::shared_ptr<PeerProcess>& peer);

 private:
  ArrivalTable arrivals_;
};

// Makes the tensor of an arrival of kTensor or kLanded: one over the sender's memory, read-only,
// whose end returns the lease, if its bytes are lent. They must be ready.
absl::Status materialize(ArrivedTensor arrival, tensorflow::Tensor* tensor);
// Makes the tensor of an arrival that is a variant, serialized or handed over, with the variant's
// parts in the memory of the device. Waits for the device.
absl::Status materialize_on(tensorflow::Device* device,
                            const tensorflow::AllocatorAttributes& attributes,
                            const ArrivedTensor& arrival, tensorflow::Tensor* tensor);

}  // namespace farwrite::plugin
