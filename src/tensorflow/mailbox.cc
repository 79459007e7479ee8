#include "mailbox.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "stats.h"

namespace farwrite::plugin {
namespace {

// In each of the shards. A push that comes later than this many steps after its own ended would
// stay until its sender ends.
constexpr std::size_t kMaxTombstones = 2048;

}  // namespace

void Tombstones::add(const StepId& step, std::uint64_t sender) {
  const Stone stone{step, sender};
  if (!stones_.insert(stone).second) return;
  oldest_first_.push_back(stone);
  if (oldest_first_.size() <= kMaxTombstones) return;
  stones_.erase(oldest_first_.front());
  oldest_first_.pop_front();
}

bool Tombstones::contains(const StepId& step, std::uint64_t sender) const {
  return stones_.count({step, 0}) != 0 || stones_.count({step, sender}) != 0;
}

void Mailbox::prune(Shard& shard, const StepId& step, Places::iterator place) {
  if (!place->second.arrivals.empty() || !place->second.waiters.empty()) return;
  const auto found = shard.steps.find(step);
  found->second.erase(place);
  if (found->second.empty()) shard.steps.erase(found);
}

void Mailbox::deliver(const StepId& step, std::string_view key, Arrival arrival) {
  Shard& shard = this->shard(step);
  Arrival dropped;                 // a lease ends after the lock,
  std::shared_ptr<Waiter> waiter;  // and so does a waiter, whose end takes other locks
  const std::lock_guard<std::mutex> lock(shard.mutex);
  if (shard.tombstones.contains(step, arrival.sender)) {
    count(stats().dropped_gone_step);
    dropped = std::move(arrival);
    return;
  }
  const auto failed = shard.failed.find(step);
  if (failed != shard.failed.end()) failed->second.erase(arrival.sender);
  Places& places = shard.steps[step];
  const auto place = places.try_emplace(std::string(key)).first;
  std::deque<Waiting>& waiters = place->second.waiters;
  const auto waiting = std::find_if(waiters.begin(), waiters.end(), [](const Waiting& entry) {
    return !entry.waiter->given_up();  // who has given up forgets itself
  });
  if (waiting == waiters.end()) {
    place->second.arrivals.push_back(std::move(arrival));
    return;
  }
  waiter = std::move(waiting->waiter);
  waiters.erase(waiting);
  prune(shard, step, place);
  waiter->deliver(std::move(arrival));
  count(stats().received);
}

void Mailbox::wait(const StepId& step, std::string_view key, std::shared_ptr<Waiter> waiter,
                   const void* peer, std::uint64_t sender) {
  Shard& shard = this->shard(step);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  if (waiter->given_up()) return;
  Places& places = shard.steps[step];
  const auto place = places.try_emplace(std::string(key)).first;
  std::deque<Arrival>& arrivals = place->second.arrivals;
  if (arrivals.empty()) {
    const auto failed = shard.failed.find(step);
    if (failed != shard.failed.end() && failed->second.count(sender) != 0) {
      waiter->fail(failed->second[sender]);
      prune(shard, step, place);
      return;
    }
    place->second.waiters.push_back({std::move(waiter), peer, sender});
    return;
  }
  Arrival arrival = std::move(arrivals.front());
  arrivals.pop_front();
  prune(shard, step, place);
  waiter->deliver(std::move(arrival));
  count(stats().received);
  count(stats().received_early);
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
  shard.tombstones.add(step, sender);
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

void Mailbox::withdraw(const StepId& step, std::string_view key, std::uint64_t sender) {
  Shard& shard = this->shard(step);
  Arrival dropped;  // a lease ends after the lock
  const std::lock_guard<std::mutex> lock(shard.mutex);
  const auto found = shard.steps.find(step);
  if (found == shard.steps.end()) return;
  const auto place = found->second.find(std::string(key));
  if (place == found->second.end()) return;
  std::deque<Arrival>& arrivals = place->second.arrivals;
  const auto last =
      std::find_if(arrivals.rbegin(), arrivals.rend(),
                   [sender](const Arrival& arrival) { return arrival.sender == sender; });
  if (last == arrivals.rend()) return;
  dropped = std::move(*last);
  arrivals.erase(std::next(last).base());
  prune(shard, step, place);
}

void Mailbox::sender_failed(const StepId& step, std::uint64_t sender, const absl::Status& status) {
  Shard& shard = this->shard(step);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  shard.failed[step][sender] = status;
  const auto found = shard.steps.find(step);
  if (found == shard.steps.end()) return;
  for (const auto& [key, place] : found->second) {
    for (const Waiting& waiting : place.waiters) {
      if (waiting.sender == sender) waiting.waiter->fail(status);  // forgets itself, later
    }
  }
}

void Mailbox::forgive(const StepId& step) {
  Shard& shard = this->shard(step);
  const std::lock_guard<std::mutex> lock(shard.mutex);
  shard.failed.erase(step);
}

void Mailbox::step_ended(const StepId& step) {
  Shard& shard = this->shard(step);
  Places dropped;  // leases end after the lock
  const std::lock_guard<std::mutex> lock(shard.mutex);
  shard.tombstones.add(step, 0);
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

void Mailbox::peer_ended(const void* peer, const absl::Status& status) {
  std::vector<Arrival> dropped;  // leases end after the locks
  for (Shard& shard : shards_) {
    const std::lock_guard<std::mutex> lock(shard.mutex);
    for (auto& [step, places] : shard.steps) {
      for (auto& [key, place] : places) {
        for (const Waiting& waiting : place.waiters) {
          if (waiting.peer == peer) waiting.waiter->fail(status);  // forgets itself, later
        }
        const auto gone =
            std::stable_partition(place.arrivals.begin(), place.arrivals.end(),
                                  [peer](const Arrival& arrival) { return arrival.peer != peer; });
        std::move(gone, place.arrivals.end(), std::back_inserter(dropped));
        place.arrivals.erase(gone, place.arrivals.end());
      }
    }
  }
  count(stats().dropped_dead_peer, dropped.size());
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
