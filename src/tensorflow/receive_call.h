// ReceiveCall: one tensor that a step waits for.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "mailbox.h"
#include "rendezvous.h"
#include "route.h"

namespace farwrite::plugin {

// Settled once: by an arrival, by the peer's failure, or by the step's abort, whichever is first.
// What follows runs on the runtime's threads, never under a lock of TensorFlow's or the mailbox'.
class ReceiveCall final : public tensorflow::BaseRecvTensorCall,
                          public Waiter,
                          public std::enable_shared_from_this<ReceiveCall> {
 public:
  using Args = tensorflow::RendezvousInterface::Args;
  using Done = tensorflow::RendezvousInterface::DoneCallback;

  ReceiveCall(Rendezvous* rendezvous, const tensorflow::RendezvousInterface::ParsedKey& key,
              const Args& args, Done done);

  // Registers with the step and waits on the route, then in the mailbox.
  void begin(const std::shared_ptr<Route>& route);

  // tensorflow::BaseRecvTensorCall.
  void Start(std::function<void()>) override {}
  void StartAbort(const absl::Status& status) override { fail(status); }
  absl::Status status() const override;

  // Waiter.
  void deliver(Arrival arrival) override;
  void fail(const absl::Status& status) override;
  bool given_up() const override { return settled_.load(); }

 private:
  void route_resolved(const Route& route);
  void settle(absl::Status status, Arrival arrival);
  void finish();

  const tsl::core::RefCountPtr<Rendezvous> rendezvous_;
  const tensorflow::RendezvousInterface::ParsedKey key_;
  const Args args_;
  // The receiving device's, for this tensor. Looked up while the session surely lives.
  tensorflow::Allocator* const allocator_;
  Done done_;
  std::atomic<bool> settled_{false};
  Arrival arrival_;
  mutable std::mutex mutex_;
  absl::Status status_;
};

}  // namespace farwrite::plugin
