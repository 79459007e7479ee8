#include "verbs_double/wire.h"

#include <algorithm>
#include <utility>

#include "verbs_double/adapter.h"
#include "verbs_double/completions.h"
#include "verbs_double/network.h"

namespace farwrite::verbs_double {
namespace {

constexpr std::chrono::microseconds kLookAgain{200};

// Ends a visit at the peer's pair. Orders the visitor's movements before destroy(), and before
// nothing else of the peer's.
struct Leave {
  QueuePair* pair;
  ~Leave() {
    pair->visitors.fetch_sub(1, std::memory_order_release);
    pair->visitors.notify_all();
  }
};

}  // namespace

Wire::Wire(Adapter& adapter)
    : adapter_(adapter), random_(adapter.wire_options.seed), thread_([this] { run(); }) {}

Wire::~Wire() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_all();
  thread_.join();
}

void Wire::ring(std::shared_ptr<QueuePair> pair) {
  {
    const std::lock_guard lock(mutex_);
    Turn& turn = turns_[pair.get()];
    turn.rung = true;
    if (turn.pair == nullptr) {
      turn.pair = std::move(pair);
      turn.from = Clock::now();
    }
  }
  wake_.notify_one();
}

void Wire::at(Clock::time_point when, std::function<void()> action) {
  {
    const std::lock_guard lock(mutex_);
    timers_.emplace(when, std::move(action));
  }
  wake_.notify_one();
}

void Wire::run() {
  std::unique_lock lock(mutex_);
  while (!ending_) {
    const auto now = Clock::now();
    if (!timers_.empty() && timers_.begin()->first <= now) {
      const auto action = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      lock.unlock();
      action();
      lock.lock();
      continue;
    }
    const auto first = std::min_element(
        turns_.begin(), turns_.end(),
        [](const auto& one, const auto& other) { return one.second.from < other.second.from; });
    if (first == turns_.end() || first->second.from > now) {
      auto until = now + std::chrono::hours(1);
      if (first != turns_.end()) until = std::min(until, first->second.from);
      if (!timers_.empty()) until = std::min(until, timers_.begin()->first);
      wake_.wait_until(lock, until);
      continue;
    }
    std::shared_ptr<QueuePair> pair = first->second.pair;
    first->second.rung = false;
    lock.unlock();
    const auto again = turn(*pair);
    lock.lock();
    const auto at = turns_.find(pair.get());
    if (again) {
      at->second.from = *again;
    } else if (at->second.rung) {
      at->second.from = Clock::now();
    } else {
      turns_.erase(at);
    }
    lock.unlock();
    pair.reset();  // perhaps the last one
    lock.lock();
  }
}

std::optional<Clock::time_point> Wire::turn(QueuePair& pair) {
  const std::shared_lock gate(adapter_.network->gate);
  std::unique_lock lock(pair.lock);
  if (pair.destroyed) return std::nullopt;
  if (pair.now == IBV_QPS_ERR) {
    flush(pair);
    return std::nullopt;
  }
  if (pair.now != IBV_QPS_RTS || pair.sends.empty()) return std::nullopt;
  if (adapter_.paused.load(std::memory_order_acquire) ||
      pair.held.load(std::memory_order_acquire)) {
    return Clock::now() + kLookAgain;
  }

  SendRequest& request = pair.sends.front();
  std::shared_ptr<QueuePair> peer = pair.peer.lock();
  pair.executing = true;
  lock.unlock();
  Outcome outcome;
  const auto failure = request.begun ? std::nullopt : adapter_.failure_for(&pair);
  if (failure) {
    outcome = {Step::kFailed, {}, failure->status, failure->vendor_error};
  } else if (const auto wait = wait_for(pair, peer.get(), request)) {
    outcome = *wait;
  } else {
    const Leave leave{peer.get()};
    outcome = execute(pair, *peer, request);
  }
  lock.lock();
  pair.executing = false;
  pair.executed.notify_all();
  if (pair.destroyed) return std::nullopt;

  const auto delay = adapter_.wire_options.max_delay;
  auto next = Clock::now();
  if (delay.count() > 0) {
    next += std::chrono::microseconds(random_.below(static_cast<std::uint64_t>(delay.count()) + 1));
  }
  switch (outcome.step) {
    case Step::kAgain:
      return next;
    case Step::kWait:
      return outcome.until;
    case Step::kDone:
      if (request.signalled && !request.completed) {
        ibv_wc completion{};
        completion.wr_id = request.wr_id;
        completion.opcode = completion_opcode(request.opcode);
        completion.byte_len = static_cast<std::uint32_t>(request.bytes);
        completion.qp_num = pair.qp_num;
        pair.complete(false, request.number, completion);
      }
      adapter_.counters.bytes.fetch_add(request.bytes, std::memory_order_relaxed);
      pair.sends.pop_front();
      return next;
    case Step::kFailed:
      break;
  }
  if (!request.completed) {
    pair.complete(
        false, request.number,
        error_completion(request.wr_id, pair.qp_num, outcome.status, outcome.vendor_error));
  }
  pair.sends.pop_front();
  pair.now = IBV_QPS_ERR;
  flush(pair);
  lock.unlock();
  adapter_.pair_failed(pair);
  return std::nullopt;
}

void Wire::flush(QueuePair& pair) {
  for (const SendRequest& request : pair.sends) {
    if (request.completed) continue;
    pair.complete(false, request.number,
                  error_completion(request.wr_id, pair.qp_num, IBV_WC_WR_FLUSH_ERR, 0xf5));
  }
  pair.sends.clear();
  for (const ReceiveRequest& request : pair.receives) {
    pair.complete(true, request.number,
                  error_completion(request.wr_id, pair.qp_num, IBV_WC_WR_FLUSH_ERR, 0xf5));
  }
  pair.receives.clear();
}

}  // namespace farwrite::verbs_double
