// The sending side of a slot adversary's run.
#pragma once

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "fabric/notified_writes.h"
#include "slot_adversary_side.h"
#include "transfer/credit_table.h"
#include "transfer/tail_flag.h"

namespace farwrite::transfer::slot_adversary {

class Sender final : public Side {
 public:
  Sender(Run& run, fabric::SimulatedNetwork& network, SlotMemory& memory)
      : run_(run), memory_(memory) {
    attach(network, true, network.addresses().front());
    export_key_ = fabric_->register_segment(memory.shown).value();
    for (std::uint64_t i = 0; i < kBuffers; ++i) free_.push_back(i);
    if (run.path == SlotPath::kFlushAndMessage) {
      lowered_ = std::make_shared<fabric::NotifiedWrites>(
          1, "simulated", "receiver", [this](std::uint32_t lane, const Operation& operation) {
            return link_->lane(lane).post(operation);
          });
    }
  }
  std::uint64_t export_key() const { return export_key_; }
  void start(std::uint64_t grant_key) { target_ = import(grant_key); }
  // The receiver's announcement of a slot, as it opens.
  void open(Credit credit) {
    AnnouncedSlot announced;
    announced.credit = credit;
    announced.capacity = kPayload;
    if (!credits_.announce(kEdge, announced) || !credits_.next_to_open(kEdge).has_value() ||
        !credits_.opened(credit.slot, {})) {
      run_.report(SlotViolation::kUnbalanced, "a slot cannot be opened");
    }
  }

  void send() {
    const std::optional<CreditTable::Taken> taken = credits_.take(kEdge, kPayload);
    if (!taken.has_value() && free_.empty()) return;
    ++last_sequence_;
    run_.sent_in_round[last_sequence_] = round_;
    if (taken.has_value()) {
      push(taken->credit);
    } else {
      offer();
    }
  }

  // A message of an earlier start of this side, that a restart left on its way. Its memory has long
  // been something else.
  void echo_of_an_earlier_start() {
    OfferRecord record = make_offer();
    record.epoch = kEpoch - 1;
    record.sequence = last_sequence_ + 1000;
    run_.sent_in_round[record.sequence] = round_;
    std::vector<std::byte> message = record.encode();
    message.push_back(std::byte{kBuffers});  // behind all that are used
    say(kOfferTag, message);
  }

  void reuse_sources() {
    for (auto& [source, completion] : sources_) {
      if (source.empty() || !completion.settled()) continue;
      std::fill(source.begin(), source.end(),
                std::byte{0});  // the code that still reads it, brings this
      kept_.push_back(std::exchange(source, {}));
    }
  }
  bool idle() const {
    return free_.size() == kBuffers &&
           std::all_of(sources_.begin(), sources_.end(),
                       [](const auto& entry) { return entry.second.settled(); });
  }
  std::uint64_t credits() const { return credits_.counts(kEdge).available; }

 private:
  Completion post(const Operation& operation) override {
    return lowered_ == nullptr ? link_->lane(0).post(operation) : lowered_->post(0, operation);
  }

  void on_notification(Notification&& notification) override {
    if (notification.tag == kReleaseTag) {
      free_.push_back(static_cast<std::uint64_t>(notification.message.front()));
      return;
    }
    const ByteView message{notification.message.data(), notification.message.size()};
    if (notification.tag == tag_of(RecordType::kReset)) {
      Result<ResetRecord> record = ResetRecord::decode(message);
      if (!record.ok()) return run_.report(SlotViolation::kTorn, record.status().to_string());
      round_ = record->round;
      for (const Credit& credit : record->credits) {
        if (!credits_.reset(credit)) {
          run_.report(SlotViolation::kUnbalanced, "a reset of an unknown slot");
        }
        if (run_.mistake == SlotMistake::kCreditTwice) (void)credits_.grant(credit);
      }
      return;
    }
    Result<GrantRecord> record = GrantRecord::decode(message);
    if (!record.ok()) return run_.report(SlotViolation::kTorn, record.status().to_string());
    for (const Credit& credit : record->credits) {
      if (!credits_.grant(credit)) {
        run_.report(SlotViolation::kUnbalanced, "a slot was granted twice");
      }
    }
  }

  void push(const Credit& credit) {
    ++run_.result.pushed;
    SlotHead head;
    head.slot = credit.slot;
    head.generation = credit.generation;
    head.bytes = kPayload;
    head.description = PushDescription{last_sequence_, {kPayload}}.encode();
    const auto encoded = head.encode();
    const bool flag = run_.path == SlotPath::kTailFlag;
    std::vector<std::byte> source(flag ? slot_bytes(kPayload, NotificationLowering::kTailFlag)
                                       : kPayload);
    fill(source.data() + (flag ? kSlotHeadBytes : 0), last_sequence_);
    Operation write;
    write.offset = credit.slot * kStride;
    write.window = target_;
    if (flag) {
      std::memcpy(source.data(), encoded.data(), encoded.size());
      const std::uint64_t value = tail_flag_value(credit.generation);
      std::memcpy(source.data() + tail_flag_offset(kPayload), &value, sizeof(value));
    } else {
      write.head = {encoded.data(), encoded.size()};
      write.notify = true;
      write.tag = kLandingTag | credit.slot;
    }
    write.source = {source.data(), source.size()};
    Completion posted = post(write);
    sources_.emplace_back(std::move(source), std::move(posted));
  }

  OfferRecord make_offer() const {
    OfferRecord record;
    record.edge = 1;
    record.round = round_;
    record.sequence = last_sequence_;
    record.epoch = kEpoch;
    record.bytes = kPayload;
    record.spec = spec();
    return record;
  }
  void offer() {
    ++run_.result.offered;
    const std::uint64_t buffer = free_.front();
    free_.pop_front();
    fill(memory_.shown->base() + buffer * kPayload, last_sequence_);
    std::vector<std::byte> message = make_offer().encode();
    message.push_back(static_cast<std::byte>(buffer));
    say(kOfferTag, message);
  }

  Run& run_;
  SlotMemory& memory_;
  std::uint64_t export_key_ = 0;
  std::shared_ptr<fabric::RemoteWindow> target_;
  std::shared_ptr<fabric::NotifiedWrites> lowered_;
  CreditTable credits_;
  std::uint32_t round_ = 0;
  std::uint64_t last_sequence_ = 0;
  std::deque<std::uint64_t> free_;
  std::deque<std::pair<std::vector<std::byte>, Completion>> sources_;
  std::vector<std::vector<std::byte>> kept_;
};

}  // namespace farwrite::transfer::slot_adversary
