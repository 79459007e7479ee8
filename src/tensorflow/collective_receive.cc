#include "collective_receive.h"

#include <cstring>
#include <utility>

#include "collective_access.h"
#include "farwrite/c_api.h"
#include "fetch.h"
#include "receive.h"
#include "runtime.h"
#include "stats.h"
#include "tensorflow/core/platform/env.h"

namespace farwrite::plugin {

namespace tf = ::tensorflow;

CollectiveReceive::CollectiveReceive(Runtime* runtime, tf::CancellationManager* abortion,
                                     tf::CancellationManager* cancellation, tf::StatusCallback done,
                                     Incoming incoming)
    : CollectiveCall(runtime, abortion, cancellation, std::move(done)),
      step_(incoming.step),
      key_(std::move(incoming.key)),
      by_stock_(std::move(incoming.by_stock)),
      destination_(std::move(incoming.destination)) {}

std::shared_ptr<CollectiveReceive> CollectiveReceive::self() {
  return std::static_pointer_cast<CollectiveReceive>(shared_from_this());
}

void CollectiveReceive::route_resolved(const Route& route, std::uint64_t expected) {
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
  runtime().mailbox().wait(step_, key_, self(), process, route.server());
  // It may have gone before the mailbox knew of the wait.
  if (process->ended()) settle(process->gone());
}

void CollectiveReceive::deliver(Arrival arrival) {
  runtime().schedule([self = self(), taken = std::make_shared<Arrival>(std::move(arrival))] {
    self->take(std::move(*taken));
  });
}

void CollectiveReceive::pull() {
  const tf::StatusCallback done = take_over();
  if (done == nullptr) return;
  count(stats().collective_pulls);
  by_stock_(done);
}

void CollectiveReceive::take(Arrival arrival) {
  if (arrival.kind == PushKind::kPull) {
    pull();
    return;
  }
  tf::Tensor destination;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (settled()) return;
    destination = destination_;
  }
  if (arrival.tensor_bytes != destination.TotalBytes() ||
      (arrival.kind != PushKind::kInline && arrival.kind != PushKind::kAlias)) {
    settle_here(absl::InternalError("Farwrite: a peer's collective sent " +
                                    std::to_string(arrival.tensor_bytes) + " bytes for " +
                                    std::to_string(destination.TotalBytes())));
    return;
  }
  if (arrival.kind == PushKind::kAlias && must_fetch(arrival)) {
    fetch_into(std::move(arrival), destination, [self = self()](absl::Status status, Arrival read) {
      read.tensor = tf::Tensor();
      self->settle(status);
    });
    return;
  }
  if (arrival.kind == PushKind::kAlias && !ready(arrival)) {
    // The first view of a segment waits for the peer, which may be silent: on a thread of its own,
    // and the step can be aborted meanwhile.
    const auto waiting = std::make_shared<Arrival>(std::move(arrival));
    tf::Env::Default()->SchedClosure([self = self(), waiting, destination] {
      self->settle(self->copy(std::move(*waiting), destination));
    });
    return;
  }
  const absl::Status status = copy(std::move(arrival), std::move(destination));
  settle_here(status);
}

absl::Status CollectiveReceive::copy(Arrival arrival, tf::Tensor destination) {
  const std::uint64_t bytes = arrival.tensor_bytes;
  if (arrival.kind == PushKind::kInline) {
    if (bytes > 0) std::memcpy(destination.data(), arrival.tensor.data(), bytes);
    return absl::OkStatus();
  }
  const void* data = nullptr;
  const absl::Status seen = look(arrival, &data);
  if (!seen.ok()) return seen;
  fw_copy(destination.data(), data, bytes);
  count(stats().collective_copies);
  count(stats().copies);
  count(stats().bytes_copied, bytes);
  return absl::OkStatus();
}

void CollectiveReceive::ended(const absl::Status& status) {
  if (!status.ok()) runtime().mailbox().forget(step_, key_, this);
  const std::lock_guard<std::mutex> lock(mutex_);
  destination_ = tf::Tensor();
}

}  // namespace farwrite::plugin
