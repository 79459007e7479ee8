#include "grpc/polling.h"

#include "core/cpu_relax.h"
#include "grpc/hub.h"

namespace farwrite::grpc {
namespace {

// gRPC's poller sees to sockets and timers: a queue's thread that always finds something lets it.
constexpr int kMostInARow = 64;

// What this thread has done.
struct Own {
  const void* queue = nullptr;  // it looks for
  bool delivered = false;       // since it last waited
  int in_a_row = 0;
};
thread_local Own own;

}  // namespace

bool Polling::look(ThreadWork& work) {
  const bool found = hub_.poll() || work.is_due();
  own.delivered = own.delivered || found;
  return found;
}

bool Polling::begins(const void* queue) {
  own.delivered = false;
  if (served_.load() != queue || !hub_.is_busy() || own.in_a_row == kMostInARow) {
    own.in_a_row = 0;
    return false;
  }
  if (looking_.exchange(true)) return false;
  own.queue = queue;
  return true;
}

bool Polling::look_for_queue(ThreadWork& work) {
  hub_.disarm();
  core::SpinBudget budget(hub_.settings().spin);
  bool found = look(work);
  while (!found && budget.spin()) found = look(work);
  work.run();
  // Before the descriptors are armed: a thread that leaves this to us relies on it.
  looking_.store(false);
  while (!hub_.arm()) {
    found = look(work) || found;
    work.run();
  }
  own.queue = nullptr;
  own.in_a_row = found ? own.in_a_row + 1 : 0;
  return found;
}

bool Polling::has_event(const void* queue) {
  if (own.delivered) served_.store(queue);
  return own.queue == queue;
}

bool Polling::before_sleep(ThreadWork& work) {
  bool found = look(work);
  while (!found && !looking_.load() && !hub_.arm()) found = look(work);
  return found;
}

void Polling::deliver(stream::Streams& streams, ThreadWork& work) {
  do {
    while (look(work)) work.run();
  } while (!looking_.load() && !streams.arm());
}

}  // namespace farwrite::grpc
