#include "mailbox.h"

#include <utility>

#include "stats.h"

namespace farwrite::plugin {
namespace {

// In each of the shards. A push that comes later than this many steps after its own ended would
// wait for its sender's kStepGone instead.
constexpr std::size_t kMaxTombstones = 1024;

}  // namespace

void Mailbox::prune(Shard& shard, const StepId& step, Places::iterator place) {
  if (!place->second.arrivals.empty() || !place->second.waiters.empty()) return;
  const auto found = shard.steps.find(step);
  found->second.erase(place);
  if (found->second.empty()) shard.steps.erase(found);
}

void Mailbox::deliver(const StepId& step, std::string_view key, Arrival arrival) {
  Shard& shard = this->shard(step);
  Arrival dropped;  // a lease ends after the lock
  const std::lock_guard<std::mutex> lock(shard.mutex);
  if (shard.tombstones.count(step) != 0) {
    count(stats().dropped_gone_step);
    dropped = std::move(arrival);
    return;
  }
  Places& places = shard.steps[step];
  const auto place = places.try_emplace(std::string(key)).first;
  std::deque<Waiting>& waiters = place->second.waiters;
  while (!waiters.empty() && waiters.front().waiter->given_up()) waiters.pop_front();
  if (waiters.empty()) {
    place->second.arrivals.push_back(std::move(arrival));
    return;
  }
  const std::shared_ptr<Waiter> waiter = std::move(waiters.front().waiter);
  waiters.pop_front();
  prune(shard, step, place);
  if (waiter->deliver(std::move(arrival))) {
    count(stats().received);
  } else {
    count(stats().dropped_gone_step);
  }
}

void Mailbox::wait(const StepId& step, std::string_view key, std::shared_ptr<Waiter> waiter,
                   const void* peer) {
  Shard& shard = this->shard(step);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  if (waiter->given_up()) return;
  Places& places = shard.steps[step];
  const auto place = places.try_emplace(std::string(key)).first;
  std::deque<Arrival>& arrivals = place->second.arrivals;
  if (arrivals.empty()) {
    place->second.waiters.push_back({std::move(waiter), peer});
    return;
  }
  Arrival arrival = std::move(arrivals.front());
  arrivals.pop_front();
  prune(shard, step, place);
  if (waiter->deliver(std::move(arrival))) {
    count(stats().received);
    count(stats().received_early);
  }
}

void Mailbox::forget(const StepId& step, std::string_view key, const Waiter* waiter) {
  Shard& shard = this->shard(step);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  const auto found = shard.steps.find(step);
  if (found == shard.steps.end()) return;
  const auto place = found->second.find(std::string(key));
  if (place == found->second.end()) return;
  std::deque<Waiting>& waiters = place->second.waiters;
  for (auto at = waiters.begin(); at != waiters.end(); ++at) {
    if (at->waiter.get() != waiter) continue;
    waiters.erase(at);
    break;
  }
  prune(shard, step, place);
}

void Mailbox::sender_dropped(const StepId& step, std::uint64_t sender) {
  Shard& shard = this->shard(step);
  std::vector<Arrival> dropped;  // leases end after the lock
  const std::lock_guard<std::mutex> lock(shard.mutex);
  const auto found = shard.steps.find(step);
  if (found == shard.steps.end()) return;
  Places& places = found->second;
  for (auto place = places.begin(); place != places.end();) {
    std::deque<Arrival> kept;
    for (Arrival& arrival : place->second.arrivals) {
      if (arrival.sender == sender) {
        count(stats().dropped_gone_step);
        dropped.push_back(std::move(arrival));
      } else {
        kept.push_back(std::move(arrival));
      }
    }
    place->second.arrivals = std::move(kept);
    const bool empty = place->second.arrivals.empty() && place->second.waiters.empty();
    place = empty ? places.erase(place) : std::next(place);
  }
  if (places.empty()) shard.steps.erase(found);
}

void Mailbox::step_ended(const StepId& step) {
  Shard& shard = this->shard(step);
  Places dropped;  // leases end after the lock
  const std::lock_guard<std::mutex> lock(shard.mutex);
  if (shard.tombstones.insert(step).second) {
    shard.oldest_first.push_back(step);
    if (shard.oldest_first.size() > kMaxTombstones) {
      shard.tombstones.erase(shard.oldest_first.front());
      shard.oldest_first.pop_front();
    }
  }
  const auto found = shard.steps.find(step);
  if (found == shard.steps.end()) return;
  // Waiters end by TensorFlow's own abort of their step.
  for (auto place = found->second.begin(); place != found->second.end();) {
    count(stats().dropped_gone_step, place->second.arrivals.size());
    if (place->second.waiters.empty()) {
      dropped.insert(found->second.extract(place++));
    } else {
      dropped[place->first].arrivals.swap(place->second.arrivals);
      ++place;
    }
  }
  if (found->second.empty()) shard.steps.erase(found);
}

void Mailbox::peer_failed(const void* peer, const absl::Status& status) {
  for (Shard& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard.mutex);
    for (auto& [step, places] : shard.steps) {
      for (auto& [key, place] : places) {
        for (const Waiting& waiting : place.waiters) {
          if (waiting.peer == peer) waiting.waiter->fail(status);  // forgets itself, later
        }
      }
    }
  }
}

std::uint64_t Mailbox::waiting_tensors() const {
  std::uint64_t waiting = 0;
  for (const Shard& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard.mutex);
    for (const auto& [step, places] : shard.steps) {
      for (const auto& [key, place] : places) waiting += place.arrivals.size();
    }
  }
  return waiting;
}

}  // namespace farwrite::plugin
