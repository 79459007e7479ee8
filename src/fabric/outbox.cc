#include "fabric/outbox.h"

#include "core/trace.h"

namespace farwrite::fabric {

bool OutboxLedger::add_credit(std::uint64_t credit) {
  if (credit > granted_ - credit_) return false;
  credit_ += credit;
  return true;
}

Status OutboxLedger::check_room(std::size_t records, std::size_t max_records,
                                const Weight& more) const {
  const std::uint64_t share = more.accepted ? kAcceptedShare : 1;
  if (records < max_records * share && bytes_ + more.bytes <= kMaxHeldBytes * share) {
    return Status();
  }
  return Status::error(
      StatusCode::kResourceExhausted, {"notify", peer_, fabric_},
      std::to_string(records) + " notifications wait for the peer to take earlier ones",
      "let the peer take its notifications, or send fewer at once");
}

void OutboxLedger::count_backlogged(const Weight& weight) {
  backlogged_.add();
  core::trace_instant("backlogged", fabric_, peer_, weight.bytes, 0, weight.tag);
}

void OutboxLedger::add(const Weight& weight) {
  bytes_ += weight.bytes;
  waits_.store(true);
}

void OutboxLedger::remove(const Weight& weight, bool last) {
  bytes_ -= weight.bytes;
  if (last) waits_.store(false);
}

}  // namespace farwrite::fabric
