// The receiving side of a slot adversary's run. It checks the rules.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "slot_adversary_side.h"
#include "transfer/sequence.h"
#include "transfer/slot.h"
#include "transfer/tail_flag.h"

namespace farwrite::transfer::slot_adversary {

class Receiver final : public Side {
 public:
  Receiver(Run& run, fabric::SimulatedNetwork& network, SlotMemory& memory, std::uint32_t slots)
      : run_(run), memory_(memory), arrived_(run.path == SlotPath::kTailFlag) {
    attach(network, false, "");
    grant_key_ = link_->grant(memory.landing, 0, kSegment, 1).value();
    std::memset(memory.landing->base(), 0, kSegment);
    for (std::uint32_t i = 0; i < slots; ++i) {
      slots_.emplace_back(i, memory.landing->base() + i * kStride, kPayload, counts_);
      flags_.push_back(0);
    }
  }
  std::uint64_t grant_key() const { return grant_key_; }

  // `open` hands the first grants to the sender, which opens the slots.
  void start(std::uint64_t export_key, const std::function<void(Credit)>& open) {
    source_ = import(export_key);
    for (Slot& slot : slots_) open(slot.grant());
  }

  void look_at_flags() {
    if (run_.path != SlotPath::kTailFlag) return;
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
      if (slots_[i].state() != SlotState::kGranted) continue;
      const std::uint64_t seen =
          load_tail_flag(tail_flag_at(memory_.landing->base() + i * kStride, kPayload));
      if (std::exchange(flags_[i], seen) != seen) land(i);
    }
  }

  void reset() {
    ++round_;
    ++run_.result.resets;
    std::vector<std::uint32_t> landed;
    for (const Item& item : arrived_.drop()) {
      if (item.reading == nullptr) {
        landed.push_back(item.slot);
      } else {
        release(item.buffer);
        dropped_reads_.push_back(item);  // its bytes still come
      }
    }
    ResetRecord record;
    record.edge = kEdge;
    record.round = round_;
    for (Slot& slot : slots_) {
      if (slot.revoke()) record.credits.push_back(slot.grant());
    }
    say(tag_of(RecordType::kReset), record.encode());
    for (const std::uint32_t slot : landed) {
      slots_[slot].give_back();
      grant(slot);
    }
  }

  // Takes the next tensor, if it is there.
  void receive() {
    std::deque<Item>& ready = arrived_.ready();
    if (ready.empty()) return;
    const Item item = ready.front();
    if (item.reading != nullptr && !item.reading->done()) return;
    ready.pop_front();
    check_order(item.sequence);
    check_round(item.sequence);
    if (item.reading != nullptr) {
      if (!is_tensor(item.bytes->data(), item.sequence)) {
        run_.report(SlotViolation::kWrongTensor, "offer " + std::to_string(item.sequence));
      }
      release(item.buffer);
      return;
    }
    Slot& slot = slots_[item.slot];
    slot.view();
    if (!is_tensor(slot.payload(), item.sequence)) {
      run_.report(SlotViolation::kTorn, "tensor " + std::to_string(item.sequence) + " is torn");
    }
    views_.push_back(item);
    if (run_.mistake == SlotMistake::kCreditTooSoon) {
      slot.give_back();
      grant(item.slot);
    }
  }
  void drop_view(Random& random) {
    if (views_.empty()) return;
    const std::size_t chosen = random.below(views_.size());
    const Item item = views_[chosen];
    views_.erase(views_.begin() + static_cast<std::ptrdiff_t>(chosen));
    if (!is_tensor(slots_[item.slot].payload(), item.sequence)) {
      run_.report(SlotViolation::kViewChanged,
                  "the view of " + std::to_string(item.sequence) + " changed");
    }
    if (run_.mistake == SlotMistake::kCreditTooSoon) return;
    slots_[item.slot].give_back();
    grant(item.slot);
  }

  bool idle() const {
    const bool read = std::all_of(dropped_reads_.begin(), dropped_reads_.end(),
                                  [](const Item& item) { return item.reading->settled(); });
    return arrived_.ready().empty() && views_.empty() && read;
  }
  const SlotCounts& counts() const { return counts_; }
  std::uint64_t granted_now() const {
    return static_cast<std::uint64_t>(
        std::count_if(slots_.begin(), slots_.end(),
                      [](const Slot& slot) { return slot.state() == SlotState::kGranted; }));
  }
  std::uint64_t stale_offers() const { return stale_offers_; }

 private:
  struct Item {
    std::uint64_t sequence = 0;
    std::uint32_t slot = 0;
    std::uint64_t buffer = 0;
    std::shared_ptr<std::vector<std::byte>> bytes;
    std::shared_ptr<Completion> reading;
  };

  void on_notification(Notification&& notification) override {
    const std::uint32_t kind = notification.tag & kTagKindMask;
    if (kind == kLandingTag) return land(notification.tag & ~kTagKindMask);
    if (notification.tag == kOfferTag) take_offer(notification.message);
  }

  void land(std::uint32_t index) {
    Slot& slot = slots_[index];
    const CheckedPush checked = slot.land();
    PushDescription push;
    Result<PushDescription> described =
        PushDescription::decode({checked.head.description.data(), checked.head.description.size()});
    if (described.ok()) push = *std::move(described);
    if (checked.verdict == PushVerdict::kLanded && !terms_.fit(push, checked.head.bytes)) {
      return run_.report(SlotViolation::kTorn, "a description is torn");
    }
    switch (checked.verdict) {
      case PushVerdict::kLanded:
        arrived_.add(push.sequence, Item{push.sequence, index, 0, nullptr, nullptr});
        break;
      case PushVerdict::kStale:
        arrived_.add(push.sequence, std::nullopt);
        if (run_.mistake == SlotMistake::kNoGenerationCheck) check_round(push.sequence);
        grant(index);
        break;
      case PushVerdict::kMalformed:
        // No peer of ours writes such a head, so it was looked at before it was there.
        run_.report(SlotViolation::kTorn, "a head is torn");
        grant(index);
        break;
      case PushVerdict::kUnasked:
        run_.report(SlotViolation::kUnbalanced, "a push without a grant");
        break;
    }
  }

  void take_offer(const std::vector<std::byte>& message) {
    const std::uint64_t buffer = static_cast<std::uint64_t>(message.back());
    Result<OfferRecord> offer = OfferRecord::decode({message.data(), message.size() - 1});
    if (!offer.ok()) return run_.report(SlotViolation::kTorn, offer.status().to_string());
    std::uint32_t round = round_;
    std::uint64_t epoch = kEpoch;
    if (run_.mistake == SlotMistake::kNoRoundCheck) round = offer->round;
    if (run_.mistake == SlotMistake::kStaleEpoch) epoch = offer->epoch;
    if (judge_offer(*offer, terms_, round, epoch, kPayload) != OfferVerdict::kWelcome) {
      ++stale_offers_;
      if (offer->epoch != kEpoch) return;
      release(buffer);
      arrived_.add(offer->sequence, std::nullopt);
      return;
    }
    Item item;
    item.sequence = offer->sequence;
    item.buffer = buffer;
    item.bytes = std::make_shared<std::vector<std::byte>>(kPayload);
    Operation read;
    read.kind = OperationKind::kRead;
    read.window = source_;
    read.offset = buffer * kPayload;
    read.destination = {item.bytes->data(), kPayload};
    item.reading = std::make_shared<Completion>(link_->lane(0).post(read));
    arrived_.add(offer->sequence, std::move(item));
  }

  void grant(std::uint32_t index) {
    const GrantRecord record{{slots_[index].grant()}};
    say(tag_of(RecordType::kGrant), record.encode());
  }
  void release(std::uint64_t buffer) { say(kReleaseTag, {static_cast<std::byte>(buffer)}); }

  void check_order(std::uint64_t sequence) {
    if (sequence <= last_sequence_) {
      run_.report(SlotViolation::kOrder, "tensor " + std::to_string(sequence) + " came late");
    }
    last_sequence_ = sequence;
  }
  void check_round(std::uint64_t sequence) {
    if (run_.sent_in_round[sequence] != round_) {
      run_.report(SlotViolation::kAborted,
                  "tensor " + std::to_string(sequence) + " was sent before the abort");
    }
  }

  Run& run_;
  SlotMemory& memory_;
  const EdgeTerms terms_{1, EdgeKind::kStatic, spec(), kPayload};
  std::uint64_t grant_key_ = 0;
  std::shared_ptr<fabric::RemoteWindow> source_;
  SlotCounts counts_;
  std::deque<Slot> slots_;
  std::vector<std::uint64_t> flags_;
  std::uint32_t round_ = 0;
  std::uint64_t last_sequence_ = 0;
  std::uint64_t stale_offers_ = 0;
  Sequence<Item> arrived_;
  std::vector<Item> views_;
  std::vector<Item> dropped_reads_;
};

}  // namespace farwrite::transfer::slot_adversary
