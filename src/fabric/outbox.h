// Outbox: the records that a lane cannot send yet, in order.
//
// The receiver bounds what a lane's sender may send ahead: by the cells of a ring (shm), or by
// credit (tcp, verbs). A record that finds no room waits here, as a copy, and every later one of
// the lane waits behind it. The fabric supplies how one record is put on the wire:
//
//   if (outbox.admit(cost)) { put it on the wire } else { return outbox.hold_pending(...) }
//   while (auto record = outbox.next()) { put it on the wire }   // when there is room again
//
// A sender that is too far ahead of its receiver gets an error, so that it fills no memory.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/completion.h"
#include "core/completion_state.h"
#include "core/counter.h"
#include "core/mutex.h"
#include "farwrite/status.h"

namespace farwrite::fabric {

// The bounds of one outbox, where a fabric sets no other.
inline constexpr std::size_t kMaxHeldRecords = 1 << 16;
inline constexpr std::uint64_t kMaxHeldBytes = std::uint64_t{64} << 20;
// So many times as much may wait of what was promised to go, for each bound. A peer that owes as
// much takes nothing any more, and its channel ends.
inline constexpr std::uint64_t kAcceptedShare = 16;

// What a record takes while it waits.
struct Weight {
  std::uint64_t bytes = 0;  // of its copy
  std::uint64_t cost = 0;   // of the receiver's credit, when it goes
  std::uint32_t tag = 0;    // for the trace
  bool accepted = false;    // it was promised to go: kAcceptedShare
};

// What another outbox has accepted, and not sent yet.
struct Handed {
  std::size_t records = 0;
  std::uint64_t bytes = 0;
};

// What does not depend on the records.
class OutboxLedger {
 public:
  // `fabric` and `peer` are for error sentences and traces.
  OutboxLedger(std::string_view fabric, std::string peer)
      : fabric_(fabric), peer_(std::move(peer)) {}

  // The receiver's first grant, before anything is sent. Without it every cost must be 0.
  void set_credit(std::uint64_t credit) { credit_ = granted_ = credit; }
  // The receiver has room for more. False if it returns more than it ever granted.
  bool add_credit(std::uint64_t credit);

  // Whether something waits. From any thread, without the lane's lock.
  bool waits() const { return waits_.load(); }
  std::uint64_t backlogged() const { return backlogged_.value(); }

 protected:
  bool affords(std::uint64_t cost) const { return cost <= credit_; }
  void pay(std::uint64_t cost) { credit_ -= cost; }
  Status check_room(std::size_t records, std::size_t max_records, const Weight& more) const;
  void count_backlogged(const Weight& weight);
  void add(const Weight& weight);
  void remove(const Weight& weight, bool last);

 private:
  const std::string_view fabric_;
  const std::string peer_;
  std::uint64_t granted_ = 0;
  std::uint64_t credit_ = 0;
  std::uint64_t bytes_ = 0;  // of what waits
  std::atomic<bool> waits_{false};
  core::Counter backlogged_;
};

// Under the lane's sending lock, but for what says otherwise. A record holds its own completion:
// the caller finishes it once the lock is released.
template <typename Record, std::size_t kMaxRecords = kMaxHeldRecords>
class Outbox : public OutboxLedger {
 public:
  using OutboxLedger::OutboxLedger;

  bool empty() const { return waiting_.empty(); }

  // Whether a record of that cost may go now: nothing waits before it, and there is credit, which
  // this takes.
  bool admit(std::uint64_t cost) {
    if (!waiting_.empty() || !affords(cost)) return false;
    pay(cost);
    return true;
  }

  // Keeps a record that was not admitted. kResourceExhausted when too much waits.
  Status hold(Record record, const Weight& weight) {
    if (Status full = check_room(waiting_.size(), kMaxRecords, weight); !full.ok()) return full;
    count_backlogged(weight);
    push_back(std::move(record), weight);
    return Status();
  }
  // The same for a record with a completion, which is made here and returned: it is done when the
  // record has gone.
  Completion hold_pending(Record record, const Weight& weight) {
    auto completion = std::make_shared<core::CompletionState>();
    record.completion = completion;
    Status held = hold(std::move(record), weight);
    return held.ok() ? Completion(std::move(completion)) : Completion(std::move(held));
  }
  // The same for a record that waits for something else than its receiver, which is no backlog.
  // `ahead`: what has left this outbox and counts on.
  Status queue(Record record, const Weight& weight, const Handed& ahead = {}) {
    Weight all = weight;
    all.bytes += ahead.bytes;
    if (Status full = check_room(waiting_.size() + ahead.records, kMaxRecords, all); !full.ok()) {
      return full;
    }
    push_back(std::move(record), weight);
    return Status();
  }

  // Takes out the first record if there is credit for it, and `goes(record)` is true. Nothing: the
  // first one waits on, or none is left.
  template <typename Goes>
  std::optional<Record> next(Goes goes) FW_NO_THREAD_SAFETY_ANALYSIS {
    if (waiting_.empty() || !affords(waiting_.front().second.cost)) return {};
    if (!goes(waiting_.front().first)) return {};
    pay(waiting_.front().second.cost);
    return take_front();
  }
  std::optional<Record> next() {
    return next([](const Record&) { return true; });
  }

  // Takes out the first record, whatever room there is: nothing goes on this lane any more.
  std::optional<Record> drop() {
    if (waiting_.empty()) return {};
    return take_front();
  }

 private:
  void push_back(Record record, const Weight& weight) {
    add(weight);
    waiting_.emplace_back(std::move(record), weight);
  }
  Record take_front() {
    auto [record, weight] = std::move(waiting_.front());
    waiting_.pop_front();
    remove(weight, waiting_.empty());
    return std::move(record);
  }

  std::deque<std::pair<Record, Weight>> waiting_;
};

}  // namespace farwrite::fabric
