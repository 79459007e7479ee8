#include "transfer/engine.h"

#include <algorithm>
#include <utility>

#include "core/mutex.h"
#include "device/channel_state.h"
#include "memory/forked_readers.h"

namespace farwrite::transfer {
namespace {

LandingTable::Time now() { return std::chrono::steady_clock::now(); }

ByteView view_of(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

}  // namespace

void EngineUser::run_later(std::chrono::nanoseconds /*delay*/, std::function<void()> work) {
  const std::function<void()> dropped = std::move(work);  // and what it holds
}

Engine::Engine(const Channel& channel, std::weak_ptr<EngineUser> user,
               std::chrono::nanoseconds grant_delay, LandingTotals& totals)
    : channel_(channel.state_->weak_from_this()),
      user_(std::move(user)),
      grant_delay_(grant_delay),
      totals_(totals),
      max_message_bytes_(channel.max_message_bytes()) {}

std::optional<Channel> Engine::channel() const {
  std::shared_ptr<device::ChannelState> state = channel_.lock();
  if (state == nullptr) return std::nullopt;
  return Channel(std::move(state));
}

void Engine::refuse_peer(const Status& reason) {
  if (const std::shared_ptr<device::ChannelState> state = channel_.lock()) {
    state->refuse_message(reason);
  }
}

void Engine::close() {
  std::vector<SlotRef> gone;  // after the lock
  std::vector<RemoteRegion> targets;
  const core::Lock lock(mutex_);
  closed_ = true;
  gone = landing_.clear();
  credits_.clear(targets);
  records_.clear();
}

// --- What comes.

Status Engine::take(Notification notification) {
  const std::shared_ptr<EngineUser> user = user_.lock();
  if (user == nullptr) return Status();
  const std::uint32_t kind = notification.tag & kTagKindMask;
  const std::uint32_t low = notification.tag & ~kTagKindMask;
  if (kind == kLandingTag) {
    ArrivedPush push = land(low);
    if (!push.known) return user->on_unknown_slot(low);
    switch (push.verdict) {
      case PushVerdict::kLanded:
        return user->on_tensor(std::move(push.tensor));
      case PushVerdict::kStale:
        user->on_stale(push.edge, view_of(push.description));
        return Status();
      case PushVerdict::kMalformed:
      case PushVerdict::kUnasked:
        return user->on_misfit(push.edge, push.verdict);
    }
  }
  if (kind == kRecordTag) {
    const ByteView message = view_of(notification.message);
    switch (static_cast<RecordType>(low)) {
      case RecordType::kSlots:
        return take_slots(*user, message);
      case RecordType::kGrant:
        return take_grants(message);
      case RecordType::kReset:
        return take_reset(*user, message);
      case RecordType::kWithdraw:
        return take_withdraw(message, notification.lane);
      case RecordType::kGivenUp:
        return take_given_up(message);
      default:
        break;
    }
  }
  return user->on_message(std::move(notification));
}

Status Engine::take_slots(EngineUser& user, ByteView message) {
  Result<SlotsRecord> record = SlotsRecord::decode(message);
  if (!record.ok()) return record.status();
  {
    const core::Lock lock(mutex_);
    for (const AnnouncedSlot& slot : record->slots) {
      if (!credits_.announce(record->edge, slot)) {
        return malformed_record("a slot was announced twice, or too many were");
      }
    }
  }
  return user.on_slots(record->edge, record->slots.size());
}

Status Engine::take_grants(ByteView message) {
  Result<GrantRecord> record = GrantRecord::decode(message);
  if (!record.ok()) return record.status();
  const core::Lock lock(mutex_);
  for (const Credit& credit : record->credits) {
    if (!credits_.grant(credit)) {
      return malformed_record("a credit for an unknown slot, or one that was granted twice");
    }
  }
  return Status();
}

Status Engine::take_reset(EngineUser& user, ByteView message) {
  Result<ResetRecord> record = ResetRecord::decode(message);
  if (!record.ok()) return record.status();
  {
    const core::Lock lock(mutex_);
    for (const Credit& credit : record->credits) {
      (void)credits_.reset(credit);  // the receiver does not know yet that a slot was given up
    }
  }
  return user.on_reset(record->edge, record->round);
}

Status Engine::take_withdraw(ByteView message, std::uint32_t lane) {
  Result<SlotListRecord> record = SlotListRecord::decode(message);
  if (!record.ok()) return record.status();
  std::optional<Channel> channel = this->channel();
  std::vector<RemoteRegion> gone(record->slots.size());  // after the lock
  const core::Lock lock(mutex_);
  std::vector<std::uint32_t> unused;
  for (std::size_t i = 0; i < record->slots.size(); ++i) {
    if (credits_.withdraw(record->slots[i], gone[i])) unused.push_back(record->slots[i]);
  }
  records_.add_slot_list(lane, RecordType::kGivenUp, unused);
  flush(channel);
  return Status();
}

Status Engine::take_given_up(ByteView message) {
  Result<SlotListRecord> record = SlotListRecord::decode(message);
  if (!record.ok()) return record.status();
  std::vector<SlotRef> gone;
  {
    const core::Lock lock(mutex_);
    for (const std::uint32_t number : record->slots) {
      const SlotRef slot = landing_.find(number);
      if (slot == nullptr || !slot->slot.revoke()) continue;  // or its tensor goes some time
      landing_.remove(slot);
      gone.push_back(slot);
    }
  }
  let_go(std::move(gone));
  return Status();
}

Engine::ArrivedPush Engine::land(std::uint32_t number) {
  std::optional<Channel> channel = this->channel();
  ArrivedPush push;
  SlotRef slot;
  bool later = false;
  {
    const core::Lock lock(mutex_);
    slot = landing_.find(number);
    if (slot == nullptr) return push;
    push.known = true;
    push.edge = slot->edge;
    CheckedPush checked = slot->slot.land();
    push.verdict = checked.verdict;
    if (checked.verdict == PushVerdict::kLanded) {
      slot->used = true;
      slot->last_used = now();
      slot->handed_out = memory::ForkedReaders::stamp();
      push.tensor = LandedTensor(shared_from_this(), slot, checked.head.bytes,
                                 std::move(checked.head.description));
    } else if (checked.verdict != PushVerdict::kUnasked) {
      push.description = std::move(checked.head.description);
      later = grant(*slot, channel);
    }
  }
  if (later) flush_later();
  return push;
}

// --- Messages.

Completion Engine::send(ByteView message, std::uint32_t tag, std::uint32_t lane) {
  std::optional<Channel> channel = this->channel();
  if (!channel.has_value()) return Completion(no_channel());
  flush_before(*channel);
  return channel->send(message, tag, lane);
}

Completion Engine::lend(ByteView message, ByteView memory, std::function<void()> returned,
                        std::uint32_t tag, std::uint32_t lane) {
  std::optional<Channel> channel = this->channel();
  if (!channel.has_value()) return Completion(no_channel());
  flush_before(*channel);
  return channel->lend(message, memory, std::move(returned), tag, lane);
}

Status Engine::no_channel() {
  return Status::error(StatusCode::kUnavailable, {"send a tensor"}, "the channel is closed",
                       "open a channel to the peer again");
}

void Engine::flush() {
  if (!records_wait()) return;
  std::optional<Channel> channel = this->channel();
  const core::Lock lock(mutex_);
  flush(channel);
}

void Engine::grant_unread() {
  if (held_back_.empty()) return;
  std::optional<Channel> channel = this->channel();
  bool later = false;
  {
    const core::Lock lock(mutex_);
    later = grant_held_back(channel);
  }
  if (later) flush_later();
}

void Engine::flush_before(Channel& channel) {
  if (!records_wait()) return;
  const core::Lock lock(mutex_);
  flush(channel);
}

void Engine::flush(Channel& channel) {
  flush_is_due_ = false;
  records_.flush(channel);
}

void Engine::flush(std::optional<Channel>& channel) {
  if (channel.has_value()) flush(*channel);
}

void Engine::flush_later() {
  const std::shared_ptr<EngineUser> user = user_.lock();
  if (user == nullptr) return;
  user->run_later(grant_delay_, [weak = weak_from_this()] {
    if (const std::shared_ptr<Engine> self = weak.lock()) self->flush();
  });
}

// --- The sender's half.

Status Engine::open_slots(const std::string& edge, core::Deadline deadline, std::uint32_t lane,
                          core::Counter* requests) {
  constexpr ErrorContext kWhere{"open a slot of the peer"};
  std::optional<Channel> channel = this->channel();
  if (!channel.has_value()) return no_channel();
  Status outcome;
  while (true) {
    std::optional<AnnouncedSlot> slot;
    {
      const core::Lock lock(mutex_);
      slot = credits_.next_to_open(edge);
    }
    if (!slot.has_value()) return outcome;
    Result<RemoteRegion> opened = channel->open(slot->descriptor, deadline.remaining());
    Status refused = opened.status();
    if (refused.ok() &&
        (opened->size() < kSlotHeadBytes || opened->size() - kSlotHeadBytes < slot->capacity)) {
      refused = Status::error(StatusCode::kProtocolError, kWhere,
                              "it has " + std::to_string(opened->size()) +
                                  " bytes and was announced for a tensor of " +
                                  std::to_string(slot->capacity),
                              "run the same Farwrite release on both sides");
    }
    if (!refused.ok()) count_slot(/*opened=*/false);
    const core::Lock lock(mutex_);
    bool kept = false;
    if (refused.ok()) {
      kept = credits_.opened(slot->credit.slot, *opened);
      if (requests != nullptr) requests->add();
    } else {
      credits_.not_opened(slot->credit.slot);
      if (outcome.ok()) outcome = std::move(refused);
    }
    if (kept) continue;
    records_.add_slot_list(lane, RecordType::kGivenUp, {slot->credit.slot});
    flush(*channel);
  }
}

void Engine::put_back(const CreditTable::Taken& taken, std::uint32_t lane) {
  std::optional<Channel> channel = this->channel();
  const core::Lock lock(mutex_);
  if (credits_.put_back(taken.credit)) return;
  records_.add_slot_list(lane, RecordType::kGivenUp, {taken.credit.slot});
  flush(channel);
}

Completion Engine::push(const CreditTable::Taken& taken, std::vector<std::byte> description,
                        ByteView payload, std::uint32_t lane) {
  std::optional<Channel> channel = this->channel();
  if (!channel.has_value()) return Completion(no_channel());
  flush_before(*channel);
  const SlotHead head{taken.credit.slot, taken.credit.generation, payload.size,
                      std::move(description)};
  const auto encoded = head.encode();
  return channel->write_with_notify({encoded.data(), encoded.size()}, payload, taken.target, 0,
                                    kLandingTag | taken.credit.slot, lane);
}

void Engine::stop_pushing(std::string_view edge) {
  std::vector<RemoteRegion> gone;  // after the lock
  const core::Lock lock(mutex_);
  credits_.close_edge(edge, gone);
}

CreditTable::Counts Engine::forget_edge(std::string_view edge) {
  std::vector<RemoteRegion> gone;  // after the lock
  const core::Lock lock(mutex_);
  const CreditTable::Counts counts = credits_.counts(edge);
  credits_.forget_edge(edge, gone);
  return counts;
}

// --- The receiver's half.

Result<std::vector<Engine::SlotRef>> Engine::add_slots(const std::string& edge, std::uint32_t lane,
                                                       const std::vector<MemoryRegion>& regions,
                                                       std::uint64_t capacity) {
  std::vector<SlotRef> slots;
  std::vector<AnnouncedSlot> announced;
  std::optional<Channel> channel = this->channel();
  const core::Lock lock(mutex_);
  if (closed_) return no_channel();
  for (const MemoryRegion& region : regions) {
    SlotRef slot = landing_.add(edge, lane, region, capacity, totals_);
    if (slot == nullptr) {
      for (const SlotRef& added : slots) landing_.remove(added);
      return Status::error(StatusCode::kResourceExhausted, {"open slots"},
                           "the channel has no slot numbers left", "use fewer slots");
    }
    announced.push_back({slot->slot.grant(), capacity, region.descriptor()});
    slots.push_back(std::move(slot));
  }
  for (auto& record : SlotsRecord::encode(edge, announced, max_message_bytes_)) {
    records_.add(lane, RecordType::kSlots, std::move(record));
  }
  flush(channel);
  return slots;
}

void Engine::want(std::string_view edge, std::uint64_t bytes, std::uint32_t lane) {
  const std::shared_ptr<EngineUser> user = user_.lock();
  if (user == nullptr) return;
  grant_unread();
  int count = 0;
  {
    const core::Lock lock(mutex_);
    if (!closed_) count = landing_.wanted(edge, bytes, now());
  }
  if (count == 0) return;
  user->run_later({}, [weak = weak_from_this(), edge = std::string(edge), bytes, count, lane] {
    if (const std::shared_ptr<Engine> self = weak.lock()) {
      self->open_on_demand(edge, bytes, count, lane);
    }
  });
}

void Engine::open_on_demand(const std::string& edge, std::uint64_t bytes, int count,
                            std::uint32_t lane) {
  std::optional<Channel> channel = this->channel();
  std::vector<std::uint32_t> retired;
  bool opened = false;
  while (count-- > 0 && channel.has_value()) {
    Result<MemoryRegion> region = channel->allocate(kSlotHeadBytes + bytes);
    if (!region.ok()) {
      count_slot(/*opened=*/false);
      const core::Lock lock(mutex_);
      landing_.memory_is_short(now());
      retired = landing_.retire_idle(now());
      break;
    }
    // What was there before must not look like a push.
    std::fill_n(region->data(), kSlotHeadBytes, std::byte{0});
    const std::vector<MemoryRegion> regions(1, *region);
    if (!add_slots(edge, lane, regions, bytes).ok()) break;
    count_slot(/*opened=*/true);
    opened = true;
  }
  const core::Lock lock(mutex_);
  landing_.opened(edge, now());
  if (opened) {
    const std::vector<std::uint32_t> outgrown = landing_.retire_smaller(edge, bytes);
    retired.insert(retired.end(), outgrown.begin(), outgrown.end());
  }
  records_.add_slot_list(lane, RecordType::kWithdraw, retired);
  flush(channel);
}

void Engine::abort(const std::string& edge, std::uint32_t lane, std::uint32_t round) {
  std::optional<Channel> channel = this->channel();
  const core::Lock lock(mutex_);
  ResetRecord record;
  record.edge = edge;
  record.round = round;
  for (const SlotRef& slot : landing_.slots_of(edge)) {
    if (slot->slot.revoke()) record.credits.push_back(slot->slot.grant());
  }
  records_.add(lane, RecordType::kReset, record.encode());
  flush(channel);
}

void Engine::close_edge(const std::string& edge) {
  std::vector<SlotRef> gone;  // after the lock
  const core::Lock lock(mutex_);
  gone = landing_.remove_edge(edge);
  for (const SlotRef& slot : gone) (void)slot->slot.revoke();
}

Engine::SlotStats Engine::stats(const std::vector<SlotRef>& slots) const {
  SlotStats stats;
  const core::Lock lock(mutex_);
  for (const SlotRef& slot : slots) {
    stats.counts = *slot->counts;
    ++stats.in_state.at(static_cast<std::size_t>(slot->slot.state()));
  }
  return stats;
}

bool Engine::grant(LandingSlot& slot, std::optional<Channel>& channel) {
  records_.add_grant(slot.lane, slot.slot.grant());
  if (grant_delay_.count() > 0) return !std::exchange(flush_is_due_, true);
  flush(channel);
  return false;
}

void Engine::view(LandingSlot& slot) {
  const core::Lock lock(mutex_);
  slot.slot.view();
  totals_.held.fetch_add(1);
}

void Engine::free(SlotRef slot, void (Slot::*how)()) {
  if (fork_guard_.in_forked_child()) return;
  std::optional<Channel> channel = this->channel();
  bool later = false;
  bool gone = false;
  {
    const core::Lock lock(mutex_);
    if (slot->slot.state() == SlotState::kViewed) totals_.held.fetch_sub(1);
    (slot->slot.*how)();
    if (closed_ || !slot->listed || slot->stopped) {
      // The last reference frees the memory.
    } else if (slot->retired) {
      landing_.remove(slot);
      gone = true;
    } else if (memory::ForkedReaders::may_read(slot->handed_out)) {
      // A child that reads the tensor must not see another one land in it. Tensors that find no
      // slot are offered meanwhile.
      slot->held_back = true;
      held_back_.add(slot, slot->handed_out);
    } else {
      later = grant(*slot, channel);
    }
    if (!held_back_.empty()) later = grant_held_back(channel) || later;
  }
  if (gone) let_go({std::move(slot)});
  if (later) flush_later();
}

bool Engine::grant_held_back(std::optional<Channel>& channel) {
  bool later = false;
  for (const SlotRef& slot : held_back_.take()) {
    slot->held_back = false;
    if (!closed_ && slot->listed && !slot->stopped) later = grant(*slot, channel) || later;
  }
  return later;
}

void Engine::count_slot(bool opened) {
  if (const std::shared_ptr<EngineUser> user = user_.lock()) user->on_slot(opened);
}

void Engine::let_go(std::vector<SlotRef> slots) {
  if (slots.empty()) return;
  const std::shared_ptr<EngineUser> user = user_.lock();
  if (user == nullptr) return;
  user->run_later({}, [gone = std::move(slots)]() mutable { gone.clear(); });
}

}  // namespace farwrite::transfer
