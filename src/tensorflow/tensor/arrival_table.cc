#include "tensor/arrival_table.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/mutex.h"
#include "stats/stats.h"

namespace farwrite::plugin {
namespace {

// In each of the shards. A push that comes later than this many steps after its own ended would
// stay until its sender ends.
constexpr std::size_t kMaxTombstones = 2048;

// At the latest after so many reminders there is another.
constexpr std::uint64_t kSeldom = 16;

// What an entry takes beside the bytes of its tensor, roughly.
constexpr std::uint64_t kEntryBytes = 512;

// Lent bytes are the sender's. Slots are bounded, and what landed in them has no backlog.
Backlog::Share share_of(const ArrivedTensor& arrival, std::string_view key) {
  if (arrival.backlog == nullptr) return {};
  const std::uint64_t bytes = arrival.lent ? 0 : arrival.tensor_bytes;
  return {arrival.backlog, kEntryBytes + key.size() + bytes};
}

}  // namespace

void Tombstones::add(const StepId& step, std::uint64_t sender, std::uint64_t start) {
  const Stone stone{step, sender};
  const auto [found, is_new] = stones_.try_emplace(stone);
  if (is_new) {
    found->second.stone = oldest_first_.insert(oldest_first_.end(), stone);
  } else {
    oldest_first_.splice(oldest_first_.end(), oldest_first_, found->second.stone);
  }
  found->second.start = std::max(found->second.start, start);
  if (oldest_first_.size() <= kMaxTombstones) return;
  stones_.erase(oldest_first_.front());
  oldest_first_.pop_front();
}

void Tombstones::begins_again(const StepId& step) {
  const auto found = stones_.find({step, kEverybody});
  if (found == stones_.end()) return;
  oldest_first_.erase(found->second.stone);
  stones_.erase(found);
}

bool Tombstones::contains(const StepId& step, std::uint64_t sender, std::uint64_t start) const {
  if (stones_.count({step, kEverybody}) != 0) return true;
  const auto found = stones_.find({step, sender});
  return found != stones_.end() && start <= found->second.start;
}

void ArrivalTable::prune(ArrivalShard& shard, const StepId& step, StepQueues::iterator queues) {
  if (!queues->second.arrivals.empty() || !queues->second.waiters.empty()) return;
  const auto found = shard.steps.find(step);
  found->second.erase(queues);
  if (found->second.empty()) shard.steps.erase(found);
}

void ArrivalTable::deliver(const StepId& step, std::string_view key, ArrivedTensor arrival) {
  ArrivalShard& shard = this->shard(step);
  std::shared_ptr<Waiter> waiter;
  {
    const core::Lock lock(shard.mutex);
    if (shard.tombstones.contains(step, arrival.sender, arrival.start)) {
      count(stats().dropped_gone_step);
      return;  // `arrival` is the caller's, so its lease ends after the lock
    }
    const auto failed = shard.failed.find(step);
    if (failed != shard.failed.end()) {
      failed->second.erase(arrival.sender);
      if (failed->second.empty()) shard.failed.erase(failed);
    }
    StepQueues& keys = shard.steps[step];
    const auto queues = keys.try_emplace(std::string(key)).first;
    std::deque<QueuedWaiter>& waiters = queues->second.waiters;
    const auto waiting =
        std::find_if(waiters.begin(), waiters.end(), [](const QueuedWaiter& entry) {
          return !entry.waiter->given_up();  // who has given up forgets itself
        });
    if (waiting == waiters.end()) {
      Backlog::Share share = share_of(arrival, key);
      queues->second.arrivals.push_back({std::move(arrival), std::move(share)});
      return;
    }
    waiter = std::move(waiting->waiter);
    waiters.erase(waiting);
    prune(shard, step, queues);
  }
  count(stats().received);
  waiter->deliver(std::move(arrival));
}

void ArrivalTable::wait(const StepId& step, std::string_view key, std::shared_ptr<Waiter> waiter,
                        const void* peer, std::uint64_t sender) {
  ArrivalShard& shard = this->shard(step);
  ArrivedTensor arrival;
  {
    const core::Lock lock(shard.mutex);
    if (waiter->given_up()) return;
    StepQueues& keys = shard.steps[step];
    const auto queues = keys.try_emplace(std::string(key)).first;
    std::deque<Unclaimed>& arrivals = queues->second.arrivals;
    if (arrivals.empty()) {
      const auto failed = shard.failed.find(step);
      if (failed != shard.failed.end() && failed->second.count(sender) != 0) {
        waiter->fail(failed->second[sender].status);
        prune(shard, step, queues);
        return;
      }
      queues->second.waiters.push_back({std::move(waiter), peer, sender, reminders_.load()});
      return;
    }
    arrival = std::move(arrivals.front().arrival);
    arrivals.pop_front();
    prune(shard, step, queues);
  }
  count(stats().received);
  count(stats().received_early);
  waiter->deliver(std::move(arrival));
}

void ArrivalTable::forget(const StepId& step, std::string_view key, const Waiter* waiter) {
  ArrivalShard& shard = this->shard(step);
  const core::Lock lock(shard.mutex);
  const auto found = shard.steps.find(step);
  if (found == shard.steps.end()) return;
  const auto queues = found->second.find(std::string(key));
  if (queues == found->second.end()) return;
  std::deque<QueuedWaiter>& waiters = queues->second.waiters;
  for (auto at = waiters.begin(); at != waiters.end(); ++at) {
    if (at->waiter.get() != waiter) continue;
    waiters.erase(at);
    break;
  }
  prune(shard, step, queues);
}

void ArrivalTable::sender_dropped(const StepId& step, std::uint64_t sender, std::uint64_t start) {
  ArrivalShard& shard = this->shard(step);
  std::vector<Unclaimed> dropped;  // leases end after the lock
  const core::Lock lock(shard.mutex);
  shard.tombstones.add(step, sender, start);
  const auto found = shard.steps.find(step);
  if (found == shard.steps.end()) return;
  StepQueues& keys = found->second;
  for (auto queues = keys.begin(); queues != keys.end();) {
    std::deque<Unclaimed> kept;
    for (Unclaimed& unclaimed : queues->second.arrivals) {
      const ArrivedTensor& arrival = unclaimed.arrival;
      if (arrival.sender == sender && arrival.start <= start) {
        count(stats().dropped_gone_step);
        dropped.push_back(std::move(unclaimed));
      } else {
        kept.push_back(std::move(unclaimed));
      }
    }
    queues->second.arrivals = std::move(kept);
    const bool empty = queues->second.arrivals.empty() && queues->second.waiters.empty();
    queues = empty ? keys.erase(queues) : std::next(queues);
  }
  if (keys.empty()) shard.steps.erase(found);
}

void ArrivalTable::withdraw(const StepId& step, std::string_view key, std::uint64_t sender) {
  ArrivalShard& shard = this->shard(step);
  Unclaimed dropped;  // a lease ends after the lock
  const core::Lock lock(shard.mutex);
  const auto found = shard.steps.find(step);
  if (found == shard.steps.end()) return;
  const auto queues = found->second.find(std::string(key));
  if (queues == found->second.end()) return;
  std::deque<Unclaimed>& arrivals = queues->second.arrivals;
  const auto last = std::find_if(
      arrivals.rbegin(), arrivals.rend(),
      [sender](const Unclaimed& unclaimed) { return unclaimed.arrival.sender == sender; });
  if (last == arrivals.rend()) return;
  dropped = std::move(*last);
  arrivals.erase(std::next(last).base());
  prune(shard, step, queues);
}

void ArrivalTable::sender_failed(const StepId& step, std::uint64_t sender,
                                 const absl::Status& status, const void* peer,
                                 std::shared_ptr<Backlog> backlog) {
  ArrivalShard& shard = this->shard(step);
  const core::Lock lock(shard.mutex);
  Backlog::Share share(std::move(backlog), kEntryBytes + status.message().size());
  shard.failed[step][sender] = {status, peer, std::move(share)};
  const auto found = shard.steps.find(step);
  if (found == shard.steps.end()) return;
  for (const auto& [key, queues] : found->second) {
    for (const QueuedWaiter& waiting : queues.waiters) {
      if (waiting.sender == sender) waiting.waiter->fail(status);  // forgets itself, later
    }
  }
}

void ArrivalTable::forgive(const StepId& step) {
  ArrivalShard& shard = this->shard(step);
  const core::Lock lock(shard.mutex);
  shard.failed.erase(step);
}

void ArrivalTable::step_begins(const StepId& step) {
  ArrivalShard& shard = this->shard(step);
  const core::Lock lock(shard.mutex);
  shard.tombstones.begins_again(step);
}

void ArrivalTable::step_ended(const StepId& step) {
  ArrivalShard& shard = this->shard(step);
  StepQueues dropped;  // leases end after the lock
  const core::Lock lock(shard.mutex);
  shard.tombstones.add(step);
  const auto found = shard.steps.find(step);
  if (found == shard.steps.end()) return;
  // Waiters end by TensorFlow's own abort of their step.
  for (auto queues = found->second.begin(); queues != found->second.end();) {
    count(stats().dropped_gone_step, queues->second.arrivals.size());
    if (queues->second.waiters.empty()) {
      dropped.insert(found->second.extract(queues++));
    } else {
      dropped[queues->first].arrivals.swap(queues->second.arrivals);
      ++queues;
    }
  }
  if (found->second.empty()) shard.steps.erase(found);
}

void ArrivalTable::peer_ended(const void* peer, const absl::Status& status) {
  std::vector<Unclaimed> dropped;  // leases end after the locks
  for (ArrivalShard& shard : shards_) {
    const core::Lock lock(shard.mutex);
    for (auto failed = shard.failed.begin(); failed != shard.failed.end();) {
      for (auto sender = failed->second.begin(); sender != failed->second.end();) {
        sender = sender->second.peer == peer ? failed->second.erase(sender) : std::next(sender);
      }
      failed = failed->second.empty() ? shard.failed.erase(failed) : std::next(failed);
    }
    for (auto step = shard.steps.begin(); step != shard.steps.end();) {
      StepQueues& keys = step->second;
      for (auto at = keys.begin(); at != keys.end();) {
        KeyQueues& queues = at->second;
        for (const QueuedWaiter& waiting : queues.waiters) {
          if (waiting.peer == peer) waiting.waiter->fail(status);  // forgets itself, later
        }
        const auto gone = std::stable_partition(
            queues.arrivals.begin(), queues.arrivals.end(),
            [peer](const Unclaimed& unclaimed) { return unclaimed.arrival.peer != peer; });
        std::move(gone, queues.arrivals.end(), std::back_inserter(dropped));
        queues.arrivals.erase(gone, queues.arrivals.end());
        const bool empty = queues.arrivals.empty() && queues.waiters.empty();
        at = empty ? keys.erase(at) : std::next(at);
      }
      step = keys.empty() ? shard.steps.erase(step) : std::next(step);
    }
  }
  count(stats().dropped_dead_peer, dropped.size());
}

void ArrivalTable::remind() {
  const std::uint64_t now = reminders_.fetch_add(1) + 1;
  std::vector<std::shared_ptr<Waiter>> overdue;
  for (ArrivalShard& shard : shards_) {
    const core::Lock lock(shard.mutex);
    for (const auto& [step, keys] : shard.steps) {
      for (const auto& [key, queues] : keys) {
        for (const QueuedWaiter& waiting : queues.waiters) {
          const std::uint64_t waited = now - waiting.since;
          const bool reminded = waited > 1 && (waited & (waited - 1)) == 0;  // 2, 4, 8, 16
          const bool later = waited % kSeldom == 0 && waited > 0;
          if (reminded || later) overdue.push_back(waiting.waiter);
        }
      }
    }
  }
  for (const std::shared_ptr<Waiter>& waiter : overdue) waiter->overdue();
}

std::uint64_t ArrivalTable::waiting_tensors() const {
  std::uint64_t waiting = 0;
  for (const ArrivalShard& shard : shards_) {
    const core::Lock lock(shard.mutex);
    for (const auto& [step, keys] : shard.steps) {
      for (const auto& [key, queues] : keys) waiting += queues.arrivals.size();
    }
  }
  return waiting;
}

}  // namespace farwrite::plugin
