#include "receive_call.h"

#include <utility>

#include "fetch.h"
#include "receive.h"
#include "runtime.h"
#include "stats.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/platform/env.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

namespace {

tf::Allocator* allocator_of(tf::WorkerSession* session,
                            const tf::RendezvousInterface::ParsedKey& key,
                            const tf::RendezvousInterface::Args& args) {
  tf::Device* device = nullptr;
  const absl::Status found = session->device_mgr()->LookupDevice(key.dst_device, &device);
  return found.ok() ? device->GetAllocator(args.alloc_attrs) : tf::cpu_allocator();
}

}  // namespace

ReceiveCall::ReceiveCall(Rendezvous* rendezvous, const tf::RendezvousInterface::ParsedKey& key,
                         const Args& args, Done done)
    : rendezvous_(tsl::core::GetNewRef(rendezvous)),
      key_(key),
      args_(args),
      allocator_(allocator_of(rendezvous->session(), key, args)),
      done_(std::move(done)) {}

absl::Status ReceiveCall::status() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return status_;
}

void ReceiveCall::begin(const std::shared_ptr<Route>& route) {
  rendezvous_->RegisterCall(this, args_);  // an aborted step settles the call in here
  // RegisterCall looks for an abort before it adds the call; one in between finds no call.
  const absl::Status aborted = rendezvous_->aborted();
  if (!aborted.ok()) fail(aborted);
  route->when_resolved(
      [self = shared_from_this()](const Route& resolved) { self->route_resolved(resolved); });
}

void ReceiveCall::route_resolved(const Route& route) {
  if (route.outcome() == Route::State::kFailed) {
    fail(route.failure());
    return;
  }
  if (route.outcome() == Route::State::kStock) {
    count(stats().pulls_stock_peer);
    Arrival arrival;
    arrival.kind = PushKind::kPull;
    deliver(std::move(arrival));
    return;
  }
  RendezvousMgr& manager = *rendezvous_->manager_;
  PeerProcess* const process = route.reach().process.get();
  manager.runtime().mailbox().wait({manager.server(), rendezvous_->step_id_}, key_.FullKey(),
                                   shared_from_this(), process);
  // It may have gone before the mailbox knew of the wait.
  if (process != nullptr && process->ended()) fail(process->gone());
}

void ReceiveCall::deliver(Arrival arrival) {
  if (must_fetch(arrival)) {
    const auto lent = std::make_shared<Arrival>(std::move(arrival));
    rendezvous_->manager_->runtime().schedule([self = shared_from_this(), lent] {
      if (self->given_up()) return;
      fetch(std::move(*lent), self->allocator_, [self](absl::Status status, Arrival fetched) {
        self->settle(std::move(status), std::move(fetched));
      });
    });
    return;
  }
  if (ready(arrival)) {
    settle(absl::OkStatus(), std::move(arrival));
    return;
  }
  // The first view of a segment waits for the peer, which may be silent: on a thread of its own,
  // and the call can be aborted meanwhile.
  const auto waiting = std::make_shared<Arrival>(std::move(arrival));
  tf::Env::Default()->SchedClosure([self = shared_from_this(), waiting] {
    absl::Status status = wait_until_ready(*waiting);
    self->settle(std::move(status), std::move(*waiting));
  });
}

void ReceiveCall::fail(const absl::Status& status) { settle(status, Arrival()); }

void ReceiveCall::settle(absl::Status status, Arrival arrival) {
  if (settled_.exchange(true)) return;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    status_ = std::move(status);
  }
  arrival_ = std::move(arrival);
  rendezvous_->manager_->runtime().schedule([self = shared_from_this()] { self->finish(); });
}

void ReceiveCall::finish() {
  RendezvousMgr& manager = *rendezvous_->manager_;
  absl::Status status = this->status();
  if (!status.ok()) {
    manager.runtime().mailbox().forget({manager.server(), rendezvous_->step_id_}, key_.FullKey(),
                                       this);
  }
  rendezvous_->DeregisterCall(this, args_);
  const Done done = std::move(done_);
  if (status.ok() && arrival_.kind == PushKind::kPull) {
    count(stats().pulls_received);
    rendezvous_->pull(key_, args_, done);
    return;
  }
  tf::Tensor tensor;
  const bool dead = arrival_.dead;
  if (status.ok()) status = materialize(std::move(arrival_), &tensor);
  done(status, Args(), args_, tensor, dead);
}

}  // namespace farwrite::plugin
