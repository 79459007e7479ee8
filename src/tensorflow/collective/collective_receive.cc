#include "collective/collective_receive.h"

#include <chrono>
#include <cstring>
#include <utility>

#include "base/remote_error.h"
#include "base/work_queue.h"
#include "collective/collective_access.h"
#include "core/mutex.h"
#include "farwrite/c_api.h"
#include "stats/stats.h"
#include "stats/transfer_log.h"
#include "tensor/fetch.h"
#include "tensor/receive.h"
#include "tensorflow/core/platform/env.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

namespace {

// Most senders have pushed by then, so that a step costs no RPC. Stock's receiver asks at once.
constexpr std::chrono::milliseconds kAskAfter(100);

}  // namespace

CollectiveReceive::CollectiveReceive(tf::CancellationManager* abortion,
                                     tf::CancellationManager* cancellation, tf::StatusCallback done,
                                     AwaitedTensor incoming)
    : CollectiveCall(abortion, cancellation, std::move(done)),
      arrivals_(*incoming.arrivals),
      step_(incoming.step),
      key_(std::move(incoming.key)),
      by_stock_(std::move(incoming.by_stock)),
      started_(TransferLog::of_process().start()),
      routes_(incoming.routes),
      cache_(std::move(incoming.cache)),
      task_(std::move(incoming.task)),
      destination_(std::move(incoming.destination)) {}

std::shared_ptr<CollectiveReceive> CollectiveReceive::self() {
  return std::static_pointer_cast<CollectiveReceive>(shared_from_this());
}

void CollectiveReceive::begin(const std::shared_ptr<Route>& route, std::uint64_t expected,
                              bool first) {
  route_ = route;
  route->when_resolved([self = self(), expected, first](const Route& resolved) {
    self->route_resolved(resolved, expected, first);
  });
}

void CollectiveReceive::fail(const absl::Status& status) {
  settle(remote_error(route_->task(), status));
}

// What a sender that cannot push has left where RecvBuf finds it could be asked for, but not taken
// back if it is pushed after all, and the next execution has the same key: the group ends.
void CollectiveReceive::overdue() {
  routes_->ask(route_, cache_, task_, step_.step, true, [self = self()](RouteAnswer answer) {
    if (answer == RouteAnswer::kWait) return;
    self->route_->outdate();
    self->fail(absl::UnavailableError(
        "Farwrite: " + self->route_->task() + " does not push its part of a collective to " +
        self->task_ + ", which waits for it: the two tasks chose different routes; " +
        "see the warnings in their logs"));
  });
}

void CollectiveReceive::route_resolved(const Route& route, std::uint64_t expected, bool first) {
  if (route.outcome() == Route::State::kFailed) {
    settle(route.failure());
    return;
  }
  if (route.outcome() == Route::State::kStock || route.reach().loopback) {
    if (!route.reach().loopback) count(stats().pulls_stock_peer);
    pull();
    return;
  }
  if (expected != 0 && expected != route.server()) {
    settle(another_start(route));
    return;
  }
  PeerProcess* const process = route.reach().process.get();
  fabric_ = process->fabric();
  arrivals_.wait(step_, key_, self(), process, route.server());
  // The peer may have gone before the arrival table held the wait.
  if (process->ended()) fail(process->gone());
  if (first && !settled()) ask_soon();
}

// The sender's part may have failed before the sender had any record of this task. The question
// makes that record, and the sender pushes StepFailed. A sender that has pushed has the record.
void CollectiveReceive::ask_soon() {
  WorkQueue::of_process().submit_later(
      kAskAfter, [weak = std::weak_ptr<CollectiveReceive>(self())] {
        const std::shared_ptr<CollectiveReceive> self = weak.lock();
        if (self == nullptr || self->settled()) return;
        self->routes_->ask(self->route_, self->cache_, self->task_, self->step_.step, true,
                           [](RouteAnswer) {});
      });
}

void CollectiveReceive::deliver(ArrivedTensor arrival) {
  WorkQueue::of_process().submit([self = self(), taken = std::make_shared<ArrivedTensor>(std::move(
                                                     arrival))] { self->take(std::move(*taken)); });
}

void CollectiveReceive::pull() {
  const tf::StatusCallback done = take_over();
  if (done == nullptr) return;
  count(stats().collective_pulls);
  by_stock_(done);
}

void CollectiveReceive::take(ArrivedTensor arrival) {
  if (arrival.kind == PushKind::kPull) {
    pull();
    return;
  }
  tf::Tensor destination;
  {
    const core::Lock lock(mutex_);
    if (settled()) return;
    destination = destination_;
  }
  if (arrival.tensor_bytes != destination.TotalBytes() || arrival.kind != PushKind::kTensor ||
      arrival.is_proto) {
    settle_here(absl::InternalError("Farwrite: a peer's collective sent " +
                                    std::to_string(arrival.tensor_bytes) + " bytes for " +
                                    std::to_string(destination.TotalBytes())));
    return;
  }
  if (arrival.lent.unmapped()) {
    fetch_into(std::move(arrival), destination,
               [self = self()](absl::Status status, ArrivedTensor read) {
                 {
                   Transfer transfer(Transfer::Kind::kRecvBuf, self->step_.step, self->key_,
                                     self->started_);
                   transfer.sent_at(read.sent);
                   if (status.ok()) transfer.went(read.way, self->fabric_, read.tensor_bytes);
                 }
                 read.tensor = tf::Tensor();
                 self->settle(status);
               });
    return;
  }
  if (!arrival.lent.ready()) {
    // The first view of a segment waits for the peer, which may be silent: on a thread of its own,
    // and the step can be aborted meanwhile.
    const auto waiting = std::make_shared<ArrivedTensor>(std::move(arrival));
    tf::Env::Default()->SchedClosure([self = self(), waiting, destination] {
      const absl::Status ready =
          waiting->lent.wait_until_ready([&self] { return self->settled(); });
      self->settle(ready.ok() ? self->copy(std::move(*waiting), destination) : ready);
    });
    return;
  }
  const absl::Status status = copy(std::move(arrival), std::move(destination));
  settle_here(status);
}

absl::Status CollectiveReceive::copy(ArrivedTensor arrival, tf::Tensor destination) {
  const std::uint64_t bytes = arrival.tensor_bytes;
  Transfer transfer(Transfer::Kind::kRecvBuf, step_.step, key_, started_);
  transfer.sent_at(arrival.sent);
  if (!arrival.lent) {
    if (bytes > 0) std::memcpy(destination.data(), arrival.tensor.data(), bytes);
    transfer.went(arrival.way, fabric_, bytes);
    return absl::OkStatus();
  }
  const void* data = nullptr;
  const absl::Status seen = arrival.lent.look(&data);
  if (!seen.ok()) return seen;
  transfer.went(arrival.way, fabric_, bytes);
  fw_copy(destination.data(), data, bytes);
  count(stats().collective_copies);
  count(stats().copies);
  count(stats().bytes_copied, bytes);
  return absl::OkStatus();
}

void CollectiveReceive::ended(const absl::Status& status) {
  if (!status.ok()) arrivals_.forget(step_, key_, this);
  const core::Lock lock(mutex_);
  destination_ = tf::Tensor();
}

}  // namespace farwrite::plugin
