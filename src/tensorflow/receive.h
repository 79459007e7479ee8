// The receiving half: from a notification to a tensor.
#pragma once

#include "absl/status/status.h"
#include "farwrite/c_api.h"
#include "mailbox.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

// Takes what a peer pushed into the mailbox. On a thread of the channel: it copies inline bytes and
// does nothing else that takes time.
void receive(const fw_notification& notification);

// Makes the tensor of an arrival other than kPull and kStepGone: inline ones are there already,
// lent ones become a tensor over the sender's memory, read-only, whose end returns the lease.
// `copy`: into memory of our own instead. May wait for the peer.
absl::Status materialize(Arrival arrival, bool copy, tensorflow::Tensor* tensor);

// Tensors over a peer's memory that are alive now.
std::int64_t held_views();

}  // namespace farwrite::plugin
