#include "step/receive_call.h"

#include <utility>

#include "base/remote_error.h"
#include "base/work_queue.h"
#include "core/mutex.h"
#include "stats/stats.h"
#include "stats/transfer_log.h"
#include "tensor/device_copy.h"
#include "tensor/fetch.h"
#include "tensor/receive.h"
#include "tensorflow/core/common_runtime/device_mgr.h"
#include "tensorflow/core/framework/device.h"
#include "tensorflow/core/platform/env.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

namespace {

tf::Device* device_of(tf::WorkerSession* session, const tf::RendezvousInterface::ParsedKey& key) {
  tf::Device* device = nullptr;
  const absl::Status found = session->device_mgr()->LookupDevice(key.dst_device, &device);
  return found.ok() ? device : nullptr;
}

tf::Allocator* allocator_for(tf::Device* device, const DeviceMemory& memory,
                             const tf::AllocatorAttributes& attributes) {
  if (memory.device != nullptr) return host_allocator(memory.device);
  return device != nullptr ? device->GetAllocator(attributes) : tf::cpu_allocator();
}

std::string task_of(const tf::DeviceNameUtils::ParsedName& device) {
  std::string task;
  (void)tf::DeviceNameUtils::GetTaskName(device, &task);
  return task;
}

}  // namespace

ReceiveCall::ReceiveCall(Rendezvous* rendezvous, const tf::RendezvousInterface::ParsedKey& key,
                         const Args& args, Done done)
    : rendezvous_(tsl::core::GetNewRef(rendezvous)),
      key_(key),
      args_(args),
      device_(device_of(rendezvous->session(), key)),
      memory_(DeviceMemory::of(device_, args)),
      allocator_(allocator_for(device_, memory_, args.alloc_attrs)),
      started_(TransferLog::of_process().start()),
      done_(std::move(done)) {}

absl::Status ReceiveCall::status() const {
  const core::Lock lock(mutex_);
  return status_;
}

void ReceiveCall::begin(const std::shared_ptr<Route>& route, Routes::Cache cache) {
  route_ = route;
  cache_ = std::move(cache);
  self_ = shared_from_this();
  rendezvous_->RegisterCall(this, args_);  // an aborted step settles the call in here
  // RegisterCall looks for an abort before it adds the call; one in between finds no call.
  const absl::Status aborted = rendezvous_->aborted();
  if (!aborted.ok()) settle(aborted, ArrivedTensor());
  route->when_resolved(
      [self = shared_from_this()](const Route& resolved) { self->route_resolved(resolved); });
}

void ReceiveCall::route_resolved(const Route& route) {
  if (route.outcome() == Route::State::kFailed) {
    fail(route.failure());
    return;
  }
  RendezvousMgr& manager = *rendezvous_->manager_;
  PeerProcess* const process = route.reach().process.get();
  if (process != nullptr) fabric_ = process->fabric();
  manager.arrivals().wait({manager.server(), rendezvous_->step_id_}, key_.FullKey(),
                          shared_from_this(), process);
  if (route.outcome() == Route::State::kStock) {
    count(stats().pulls_stock_peer);
    pull();
    return;
  }
  if (route.peer_keeps()) {
    count(stats().pulls_unpushed);
    pull();
  }
  // The peer may have gone before the arrival table held the wait.
  if (process != nullptr && process->ended()) fail(process->gone());
}

void ReceiveCall::overdue() {
  {
    const core::Lock lock(mutex_);
    if (given_up() || pull_ != nullptr) return;
  }
  const std::string own = task_of(key_.dst);
  rendezvous_->manager_->routes().ask(
      route_, cache_, own, rendezvous_->step_id_, false,
      [self = shared_from_this(), own](RouteAnswer answer) {
        if (answer == RouteAnswer::kWait || self->given_up()) return;
        if (answer == RouteAnswer::kKeeps) {
          self->route_->set_peer_keeps(true);
          count(stats().pulls_unpushed);
          self->pull();
          return;
        }
        self->route_->outdate();
        self->fail(absl::UnavailableError("Farwrite: " + self->sender() +
                                          " pushed to another server by the name of " + own +
                                          ", which was probably replaced; run the step again"));
      });
}

void ReceiveCall::pull() {
  if (device_ == nullptr) {
    fail(absl::UnavailableError("Farwrite: cannot ask " + sender() +
                                " for a tensor: the step's devices are gone"));
    return;
  }
  std::shared_ptr<Pull> pull;
  {
    const core::Lock lock(mutex_);
    if (given_up() || pull_ != nullptr) return;
    const auto answered = [weak = weak_from_this()](const absl::Status& status,
                                                    const tf::Tensor& tensor, bool is_dead) {
      const std::shared_ptr<ReceiveCall> self = weak.lock();
      if (self == nullptr) return;  // it was pushed
      ArrivedTensor arrival;
      arrival.dead = is_dead;
      arrival.tensor = tensor;
      self->settle(status, std::move(arrival));
    };
    // Not the session's own device: the answer may come after the session has gone.
    pull = pull_ = std::make_shared<Pull>(cache_, device_->UnderlyingDevice(), args_.alloc_attrs,
                                          rendezvous_->step_id_, key_, answered);
  }
  count(stats().pulls_received);
  pull->begin();
}

void ReceiveCall::deliver(ArrivedTensor arrival) {
  delivered_.store(true);
  if (arrival.kind == PushKind::kPull) {
    WorkQueue::of_process().submit([self = shared_from_this()] { self->pull(); });
    return;
  }
  route_->set_peer_keeps(false);
  if (!arrival.failure.ok()) {
    fail(arrival.failure);
    return;
  }
  if (arrival.lent.unmapped()) {
    if (given_up()) return;
    if (arrival.is_proto || memory_.device != nullptr) {
      // Not here: a string is filled with zeros first, and the memory that a device's driver has
      // pinned may have to be waited for.
      const auto lent = std::make_shared<ArrivedTensor>(std::move(arrival));
      WorkQueue::of_process().submit([self = shared_from_this(), lent] {
        if (!self->given_up()) self->fetch_lent(std::move(*lent));
      });
      return;
    }
    fetch_lent(std::move(arrival));
    return;
  }
  if (arrival.lent.ready()) {
    arrived(absl::OkStatus(), std::move(arrival));
    return;
  }
  // The first view of a segment waits for the peer, which may be silent: on a thread of its own,
  // and the call can be aborted meanwhile.
  const auto waiting = std::make_shared<ArrivedTensor>(std::move(arrival));
  tf::Env::Default()->SchedClosure([self = shared_from_this(), waiting] {
    const absl::Status status =
        waiting->lent.wait_until_ready([&self] { return self->given_up(); });
    self->arrived(remote_error(self->sender(), status), std::move(*waiting));
  });
}

void ReceiveCall::fetch_lent(ArrivedTensor arrival) {
  fetch(std::move(arrival), allocator_,
        [self = shared_from_this()](absl::Status status, ArrivedTensor fetched) {
          self->arrived(remote_error(self->sender(), status), std::move(fetched));
        });
}

void ReceiveCall::arrived(absl::Status status, ArrivedTensor arrival) {
  if (device_ == nullptr && key_.dst.type != "CPU") {
    // Nothing knows any more in which memory the consumer wants it.
    status = absl::UnavailableError("Farwrite: the step's devices are gone");
  }
  if (!status.ok() || arrival.dead || memory_.device == nullptr) {
    settle(std::move(status), std::move(arrival));
  } else if (!given_up()) {
    copy_to_own_memory(std::move(arrival));
  }
}

void ReceiveCall::copy_to_own_memory(ArrivedTensor arrival) {
  const auto copied = [self = shared_from_this(), way = arrival.way, sent = arrival.sent](
                          const absl::Status& status, const tf::Tensor& tensor) {
    ArrivedTensor there;
    there.way = way;
    there.sent = sent;
    there.tensor = tensor;
    self->settle(status, std::move(there));
  };
  if (arrival.is_proto || !tf::DataTypeCanUseMemcpy(arrival.tensor.dtype())) {
    // A variant, whose parts lie in the memory of the device. TensorFlow waits for their copies.
    const auto taken = std::make_shared<ArrivedTensor>(std::move(arrival));
    tf::Env::Default()->SchedClosure([self = shared_from_this(), taken, copied] {
      tf::Tensor tensor;
      const absl::Status status =
          materialize_on(self->memory_.device, self->args_.alloc_attrs, *taken, &tensor);
      taken->lent = RemoteBytes();
      if (status.ok()) {
        count(stats().staged_device_receives);
        count(stats().staged_device_bytes, tensor.TotalBytes());
      }
      copied(status, tensor);
    });
    return;
  }
  tf::Tensor host;
  const absl::Status status = materialize(std::move(arrival), &host);
  if (!status.ok()) {
    copied(remote_error(sender(), status), tf::Tensor());
    return;
  }
  copy_to_device(memory_, args_.alloc_attrs, std::move(host), key_.edge_name, copied);
}

void ReceiveCall::fail(const absl::Status& status) {
  settle(remote_error(sender(), status), ArrivedTensor());
}

void ReceiveCall::settle(absl::Status status, ArrivedTensor arrival) {
  if (settled_.exchange(true)) return;
  std::shared_ptr<Pull> given_up;
  const bool failed = !status.ok();
  {
    const core::Lock lock(mutex_);
    if (failed) given_up = pull_;
    status_ = std::move(status);
  }
  if (given_up != nullptr) given_up->cancel();
  const bool must_parse = arrival.is_proto;
  arrival_ = std::move(arrival);
  if (failed || must_parse) {
    WorkQueue::of_process().submit([self = shared_from_this()] { self->finish(); });
  } else {
    finish();
  }
}

void ReceiveCall::finish() {
  RendezvousMgr& manager = *rendezvous_->manager_;
  absl::Status status = this->status();
  if (!delivered_.load()) {
    manager.arrivals().forget({manager.server(), rendezvous_->step_id_}, key_.FullKey(), this);
  }
  rendezvous_->DeregisterCall(this, args_);
  const Done done = std::move(done_);
  tf::Tensor tensor;
  const bool dead = arrival_.dead;
  if (status.ok()) {
    Transfer transfer(Transfer::Kind::kRecvTensor, rendezvous_->step_id_, key_, started_);
    const std::string_view way = arrival_.way;
    transfer.sent_at(arrival_.sent);
    status = remote_error(sender(), materialize(std::move(arrival_), &tensor));
    // What was asked for by RPC, TensorFlow's own worker has recorded.
    if (status.ok() && !way.empty()) transfer.went(way, fabric_, tensor.TotalBytes());
  }
  self_ = nullptr;
  done(status, Args(), args_, tensor, dead);
}

}  // namespace farwrite::plugin
