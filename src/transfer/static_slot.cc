#include "transfer/static_slot.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace farwrite::transfer {

void StaticSlot::move_to(SlotState next) {
  // An illegal step is a bug of ours, and going on would hand out memory that is in use.
  if (!may_follow(state_, next)) std::abort();
  state_ = next;
}

std::uint64_t StaticSlot::grant() {
  move_to(SlotState::kGranted);
  ++counts_->grants;
  return ++generation_;
}

bool StaticSlot::revoke() {
  if (state_ != SlotState::kGranted) return false;
  move_to(SlotState::kFree);
  ++counts_->revoked;
  return true;
}

StaticSlot::Landing StaticSlot::land(const SlotTerms& terms) {
  Landing landing;
  if (state_ != SlotState::kGranted) {
    ++counts_->malformed;
    return landing;
  }
  landing.outcome = judge(terms, landing.head);
  switch (landing.outcome) {
    case Outcome::kLanded:
      move_to(SlotState::kLanded);
      ++counts_->landed;
      break;
    case Outcome::kStale:
      move_to(SlotState::kFree);
      ++counts_->stale;
      break;
    case Outcome::kMalformed:
    case Outcome::kUnasked:
      move_to(SlotState::kFree);
      ++counts_->malformed;
      break;
  }
  return landing;
}

StaticSlot::Outcome StaticSlot::judge(const SlotTerms& terms, SlotHead& head) const {
  std::array<std::byte, kSlotHeadBytes> copied;
  std::memcpy(copied.data(), memory_, copied.size());
  Result<SlotHead> decoded = SlotHead::decode(copied);
  if (!decoded.ok() || decoded->edge != terms.edge) return Outcome::kMalformed;
  head = *std::move(decoded);
  if (head.generation < generation_) return Outcome::kStale;
  if (head.generation > generation_ || head.bytes > terms.capacity) return Outcome::kMalformed;
  if (terms.kind == EdgeKind::kStatic && head.dims != terms.spec.dims) return Outcome::kMalformed;
  Result<std::uint64_t> bytes =
      TensorSpec{terms.spec.dtype, terms.spec.item_bytes, head.dims}.bytes();
  if (!bytes.ok() || *bytes != head.bytes) return Outcome::kMalformed;
  return Outcome::kLanded;
}

void StaticSlot::view() { move_to(SlotState::kViewed); }

void StaticSlot::give_back() {
  move_to(SlotState::kFree);
  ++counts_->returned;
}

bool SlotCredits::granted(Credit credit) {
  const bool known = std::any_of(credits_.begin(), credits_.end(),
                                 [&](const Credit& held) { return held.slot == credit.slot; });
  if (known) return false;
  credits_.push_back(credit);
  ++grants_;
  return true;
}

void SlotCredits::reset(Credit credit) {
  for (Credit& held : credits_) {
    if (held.slot == credit.slot) held.generation = credit.generation;
  }
}

std::optional<SlotCredits::Credit> SlotCredits::take() {
  if (credits_.empty()) return std::nullopt;
  const Credit credit = credits_.front();
  credits_.pop_front();
  return credit;
}

}  // namespace farwrite::transfer
