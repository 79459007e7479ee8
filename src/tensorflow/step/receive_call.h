// ReceiveCall: one tensor that a step waits for.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "core/mutex.h"
#include "peer/route.h"
#include "step/pull.h"
#include "step/rendezvous.h"
#include "tensor/arrival_table.h"
#include "tensor/device_copy.h"

namespace farwrite::plugin {

// Settled once: by an arrival, by RecvTensor's answer, by the peer's failure, or by the step's
// abort, whichever is first. It waits in the arrival table whatever is known of its sender, and
// asks by RecvTensor beside that if the sender is one that does not push. A sender either pushes a
// tensor or keeps it, so there is one of the two; the RPC that loses is left alone, see Pull.
//
// The step goes on in the thread that brought the tensor, as stock's does in gRPC's: the executor
// puts the nodes that are ready into its own pool. Failures come under locks of TensorFlow's or the
// arrival table's, and strings must be parsed: those go on in the runtime's threads.
//
// What a device wants in memory of its own is copied there from where it arrived, and arrives when
// the copy has ended. Until then the step may be aborted.
class ReceiveCall final : public tensorflow::BaseRecvTensorCall,
                          public Waiter,
                          public std::enable_shared_from_this<ReceiveCall> {
 public:
  using Args = tensorflow::RendezvousInterface::Args;
  using Done = tensorflow::RendezvousInterface::DoneCallback;

  ReceiveCall(Rendezvous* rendezvous, const tensorflow::RendezvousInterface::ParsedKey& key,
              const Args& args, Done done);

  // Registers with the step and waits on the route, then in the arrival table. `cache` is the
  // cluster of the route: the sender is asked by it, even if the session has another one by then.
  void begin(const std::shared_ptr<Route>& route, Routes::Cache cache);

  // tensorflow::BaseRecvTensorCall.
  void Start(std::function<void()>) override {}
  void StartAbort(const absl::Status& status) override { settle(status, ArrivedTensor()); }
  absl::Status status() const override;

  // Waiter.
  void deliver(ArrivedTensor arrival) override;
  void fail(const absl::Status& status) override;
  bool given_up() const override { return settled_.load(); }
  void overdue() override;

 private:
  void route_resolved(const Route& route);
  // Asks by RecvTensor, once.
  void pull();
  void fetch_lent(ArrivedTensor arrival);
  // The bytes are in this process, or they will not come.
  void arrived(absl::Status status, ArrivedTensor arrival);
  void copy_to_own_memory(ArrivedTensor arrival);
  void settle(absl::Status status, ArrivedTensor arrival);
  void finish();
  // The sending task, by its name in the step's cluster.
  const std::string& sender() const { return route_->task(); }

  const tsl::core::RefCountPtr<Rendezvous> rendezvous_;
  const tensorflow::RendezvousInterface::ParsedKey key_;
  const Args args_;
  // The receiving device, the memory where it wants the tensor, and the allocator of host memory
  // for its bytes. Looked up while the session surely lives.
  tensorflow::Device* const device_;
  const DeviceMemory memory_;
  tensorflow::Allocator* const allocator_;
  const std::int64_t started_;  // see TransferLog::start()
  std::string fabric_;          // if it is
  Done done_;
  std::shared_ptr<Route> route_;
  Routes::Cache cache_;
  std::atomic<bool> settled_{false};
  std::atomic<bool> delivered_{false};  // the arrival table no longer holds it
  ArrivedTensor arrival_;
  mutable core::Mutex mutex_{core::LockRank::kProgram, 1};
  absl::Status status_ FW_GUARDED_BY(mutex_);
  std::shared_ptr<Pull> pull_ FW_GUARDED_BY(mutex_);
  std::shared_ptr<ReceiveCall> self_;  // until it is settled
};

}  // namespace farwrite::plugin
