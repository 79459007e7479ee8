// CollectivePost: one tensor that a collective sends to another task.
//
// It is done when the receiver has taken the tensor, as in stock: until then cancelling the step
// takes the tensor back, so that a step that ended badly leaves nothing that the next one with the
// same keys would mistake for its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "collective/collective_call.h"
#include "core/mutex.h"
#include "peer/peer_process.h"
#include "peer/route.h"
#include "tensor/push_message.h"
#include "tensorflow/core/framework/tensor.h"

namespace farwrite::plugin {

class CollectivePost final : public CollectiveCall {
 public:
  struct PostedTensor {
    Peers* peers = nullptr;
    std::int64_t step = 0;
    std::uint64_t sender = 0;  // own server's incarnation
    std::string key;
    tensorflow::Tensor tensor;
    ByStock by_stock;
  };

  CollectivePost(tensorflow::CancellationManager* abortion,
                 tensorflow::CancellationManager* cancellation, tensorflow::StatusCallback done,
                 PostedTensor outgoing);

  // `expected` is the receiving server's incarnation as the group knows it, 0 if it does not.
  void route_resolved(const Route& route, std::uint64_t expected);

 private:
  void ended(const absl::Status& status) override;
  void by_stock();
  absl::Status push(const Route& route);
  absl::Status lend(const void* data, std::uint64_t bytes, std::unique_ptr<LentTensor> lent)
      FW_REQUIRES(mutex_);
  void pull(const Route& route);

  Peers& peers_;
  PushMessage message_;
  const std::string key_;
  const ByStock by_stock_;
  core::Mutex mutex_{core::LockRank::kProgram, 3};              // orders push and withdrawal
  tensorflow::Tensor tensor_ FW_GUARDED_BY(mutex_);             // gone once it has ended
  std::shared_ptr<PeerProcess> process_ FW_GUARDED_BY(mutex_);  // whom it was pushed to
};

}  // namespace farwrite::plugin
