#include "transfer/slot.h"

#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace farwrite::transfer {

void Slot::move_to(SlotState next) {
  // An illegal step is a bug of ours, and going on would hand out memory that is in use.
  if (!may_follow(state_, next)) std::abort();
  state_ = next;
}

Credit Slot::grant() {
  move_to(SlotState::kGranted);
  ++counts_->grants;
  return {number_, ++generation_};
}

bool Slot::revoke() {
  if (state_ != SlotState::kGranted) return false;
  move_to(SlotState::kFree);
  ++counts_->revoked;
  return true;
}

CheckedPush Slot::land() {
  CheckedPush push;
  if (state_ != SlotState::kGranted) {
    ++counts_->malformed;
    return push;
  }
  push.verdict = judge(push.head);
  switch (push.verdict) {
    case PushVerdict::kLanded:
      move_to(SlotState::kLanded);
      ++counts_->landed;
      break;
    case PushVerdict::kStale:
      move_to(SlotState::kFree);
      ++counts_->stale;
      break;
    case PushVerdict::kMalformed:
    case PushVerdict::kUnasked:
      move_to(SlotState::kFree);
      ++counts_->malformed;
      break;
  }
  return push;
}

PushVerdict Slot::judge(SlotHead& head) const {
  std::array<std::byte, kSlotHeadBytes> copied;
  std::memcpy(copied.data(), memory_, copied.size());
  Result<SlotHead> decoded = SlotHead::decode(copied);
  if (!decoded.ok() || decoded->slot != number_) return PushVerdict::kMalformed;
  head = *std::move(decoded);
  if (head.generation < generation_) return PushVerdict::kStale;
  if (head.generation > generation_ || head.bytes > capacity_) return PushVerdict::kMalformed;
  return PushVerdict::kLanded;
}

void Slot::view() { move_to(SlotState::kViewed); }

void Slot::refuse() {
  if (state_ != SlotState::kLanded) std::abort();
  move_to(SlotState::kFree);
  --counts_->landed;
  ++counts_->malformed;
}

void Slot::give_back() {
  move_to(SlotState::kFree);
  ++counts_->returned;
}

}  // namespace farwrite::transfer
