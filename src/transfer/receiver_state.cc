#include "transfer/receiver_state.h"

#include <algorithm>
#include <utility>

#include "transfer/tail_flag.h"

namespace farwrite::transfer {
namespace {

// Offers that are read at the same time.
constexpr std::size_t kReadAhead = 4;
// Offers that a receiver may be behind: each costs its description.
constexpr std::size_t kMaxArrived = 1 << 16;

}  // namespace

std::uint64_t* ReceiverState::flag_of(const Place& place) const {
  if (options_.lowering != NotificationLowering::kTailFlag) return nullptr;
  return tail_flag_at(place.region.data(), terms_.capacity);
}

void ReceiverState::sender_has_closed(std::uint64_t last_sequence) {
  sender_closed_ = true;
  closing_sequence_ = last_sequence;
}

// Tail flags may come behind the record that says so.
bool ReceiverState::sender_has_ended() const {
  const bool overtaken = options_.lowering == NotificationLowering::kTailFlag;
  return sender_closed_ && (!overtaken || arrived_.last() >= closing_sequence_);
}

// It is known by its number that it will not come.
void ReceiverState::drop_stale(std::uint64_t sequence) {
  if (arrived_.expects(sequence)) arrived_.add(sequence, std::nullopt);
}

void ReceiverState::land(std::uint32_t index) {
  if (closed_ || index >= places_.size()) return;
  StaticSlot::Landing landing = places_[index].slot.land(terms_);
  switch (landing.outcome) {
    case StaticSlot::Outcome::kLanded:
      if (!arrived_.expects(landing.head.sequence)) {
        ++dropped_unseen_;
        places_[index].slot.give_back();
        grant_again(index);
        break;
      }
      arrived_.add(landing.head.sequence, Item{index, landing.head, nullptr});
      break;
    case StaticSlot::Outcome::kStale:
      drop_stale(landing.head.sequence);
      grant_again(index);
      break;
    case StaticSlot::Outcome::kMalformed:
      // Without notifications only its number could have told which one is missing now.
      if (options_.lowering == NotificationLowering::kTailFlag) {
        broken_ = malformed_record("a tail flag behind a malformed head");
      }
      grant_again(index);
      break;
    case StaticSlot::Outcome::kUnasked:
      break;
  }
}

void ReceiverState::take_offer(OfferRecord offer, const RemoteRegion& lent, std::uint64_t epoch) {
  if (closed_) return;
  ++offered_;
  std::optional<std::uint64_t> lent_bytes;
  if (lent.valid()) lent_bytes = lent.size();
  OfferVerdict verdict = judge_offer(offer, terms_, round_, epoch, lent_bytes);
  if (verdict == OfferVerdict::kWelcome && !arrived_.expects(offer.sequence)) {
    verdict = OfferVerdict::kMalformed;
  }
  if (arrived_.ready().size() >= kMaxArrived && broken_.ok()) {
    broken_ =
        Status::error(StatusCode::kResourceExhausted, {"receive a tensor"},
                      std::to_string(kMaxArrived) + " tensors wait and no thread receives them",
                      "receive them, or send fewer ahead");
  }
  if (!broken_.ok()) verdict = OfferVerdict::kMalformed;
  if (verdict == OfferVerdict::kStale && offer.epoch == epoch) drop_stale(offer.sequence);
  if (verdict != OfferVerdict::kWelcome) {
    ++dropped_offers_;
    return;
  }
  const std::uint64_t sequence = offer.sequence;
  arrived_.add(sequence, Item{0, {}, std::make_shared<DynamicSlot>(std::move(offer), lent)});
}

void ReceiverState::grant_again(std::uint32_t index) {
  Place& place = places_[index];
  unsaid_grants_.push_back({place.number, place.slot.grant()});
  say_grants();
}

void ReceiverState::say_grants() {
  // A full backlog empties some time; whoever grants or receives next says the rest, too.
  while (reset_unsaid_) {
    CreditsRecord record;
    record.edge = terms_.edge;
    record.round = round_;
    const std::size_t count = std::min(unsaid_reset_.size(), CreditsRecord::kMaxEntries);
    record.credits.assign(unsaid_reset_.begin(), unsaid_reset_.begin() + count);
    const Completion said = say(channel_, RecordType::kReset, record.encode(), options_.lane);
    if (said.done() && said.wait().code() == StatusCode::kResourceExhausted) return;
    unsaid_reset_.erase(unsaid_reset_.begin(), unsaid_reset_.begin() + count);
    reset_unsaid_ = !unsaid_reset_.empty();
  }
  while (!unsaid_grants_.empty()) {
    CreditsRecord record;
    record.edge = terms_.edge;
    record.round = round_;
    const std::size_t count = std::min(unsaid_grants_.size(), CreditsRecord::kMaxEntries);
    record.credits.assign(unsaid_grants_.begin(), unsaid_grants_.begin() + count);
    const Completion said = say(channel_, RecordType::kGrant, record.encode(), options_.lane);
    if (said.done() && said.wait().code() == StatusCode::kResourceExhausted) return;
    unsaid_grants_.erase(unsaid_grants_.begin(), unsaid_grants_.begin() + count);
  }
}

void ReceiverState::look_at_flags() {
  for (std::uint32_t i = 0; i < places_.size(); ++i) {
    std::uint64_t* const flag = flag_of(places_[i]);
    if (flag == nullptr || places_[i].slot.state() != SlotState::kGranted) continue;
    const std::uint64_t seen = load_tail_flag(flag);
    if (seen == places_[i].last_flag) continue;
    places_[i].last_flag = seen;
    land(i);
  }
}

Status ReceiverState::wait_for(core::Deadline deadline, const std::function<void()>& take) {
  const bool polled = options_.lowering == NotificationLowering::kTailFlag;
  const auto arrived = [&] {
    if (!closed_ && (reset_unsaid_ || !unsaid_grants_.empty())) say_grants();
    if (polled && !closed_) look_at_flags();
    const bool over = closed_ || sender_has_ended() || !broken_.ok();
    if (arrived_.ready().empty() && !over) return false;
    take();
    return true;
  };
  return port_->wait(channel_, arrived, deadline, polled);
}

Status ReceiverState::wait(std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("wait for a tensor"));
  Status waited = wait_for(core::Deadline::after(timeout), [] {});
  // What else there is to tell, receive() tells.
  return waited.code() == StatusCode::kDeadlineExceeded ? waited : Status();
}

Result<ReceivedTensor> ReceiverState::receive(std::chrono::nanoseconds timeout) {
  constexpr std::string_view kOperation = "receive a tensor";
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check(kOperation));
  const core::Deadline deadline = core::Deadline::after(timeout);
  if (timeout.count() <= 0) port_->drain(channel_);
  return_held_slots();
  std::optional<Item> item;
  bool closed = false;
  Status broken;
  FARWRITE_RETURN_IF_ERROR(wait_for(deadline, [&] {
    closed = closed_;
    broken = broken_;
    std::deque<Item>& ready = arrived_.ready();
    if (ready.empty()) return;
    item = std::move(ready.front());
    ready.pop_front();
    if (item->offer == nullptr) places_[item->index].slot.view();
  }));
  if (item.has_value()) return resolve(*std::move(item), deadline);
  if (!broken.ok()) return broken;
  if (closed) {
    return Status::error(StatusCode::kCancelled, {kOperation}, "the receiver is closed",
                         "open it again");
  }
  return Status::error(StatusCode::kUnavailable, {kOperation},
                       "the sender of \"" + name_ + "\" has closed, and everything was received",
                       "open another edge for more");
}

Result<std::optional<ReceivedTensor>> ReceiverState::try_receive() {
  Result<ReceivedTensor> received = receive(std::chrono::nanoseconds(0));
  if (received.ok()) return std::optional<ReceivedTensor>(*std::move(received));
  if (received.status().code() == StatusCode::kDeadlineExceeded) {
    return std::optional<ReceivedTensor>();
  }
  return received.status();
}

Result<ReceivedTensor> ReceiverState::resolve(Item item, core::Deadline deadline) {
  if (item.offer == nullptr) return hand_out(item);
  const DynamicSlot::Start started =
      item.offer->start(channel_, options_.copy_offers, options_.allocator);
  if (started == DynamicSlot::Start::kReading) {
    read_allocations_.add();
    read_ahead();
  }
  Result<ReceivedTensor> received = item.offer->finish(deadline.remaining());
  if (!received.ok() && received.status().code() == StatusCode::kDeadlineExceeded) {
    const std::lock_guard<std::mutex> lock(port_->mutex());
    if (!closed_) arrived_.ready().push_front(std::move(item));
    return received;
  }
  if (received.ok()) (received->arrival() == Arrival::kRead ? read_ : aliased_).add();
  return received;
}

void ReceiverState::read_ahead() {
  std::vector<std::shared_ptr<DynamicSlot>> next;
  {
    const std::lock_guard<std::mutex> lock(port_->mutex());
    const std::deque<Item>& ready = arrived_.ready();
    for (std::size_t i = 0; i < std::min(ready.size(), kReadAhead - 1); ++i) {
      if (ready[i].offer != nullptr) next.push_back(ready[i].offer);
    }
  }
  for (const auto& offer : next) {
    const auto started = offer->start(channel_, options_.copy_offers, options_.allocator);
    if (started == DynamicSlot::Start::kReading) read_allocations_.add();
  }
}

ReceivedTensor ReceiverState::hand_out(const Item& item) {
  const Place& place = places_[item.index];  // never changes once announced
  auto received = std::make_shared<Received>();
  received->spec = {terms_.spec.dtype, terms_.spec.item_bytes, item.head.dims};
  received->data = place.slot.payload();
  received->bytes = item.head.bytes;
  received->sequence = item.head.sequence;
  received->landing = place.region;
  received->on_gone = [weak = weak_from_this(), guard = fork_guard_, index = item.index,
                       handed_out = memory::ForkedReaders::stamp()] {
    if (guard.in_forked_child()) return;
    if (const std::shared_ptr<ReceiverState> self = weak.lock()) self->view_gone(index, handed_out);
  };
  return ReceivedTensor(std::move(received));
}

void ReceiverState::view_gone(std::uint32_t index, std::uint64_t handed_out) {
  const std::lock_guard<std::mutex> lock(port_->mutex());
  if (memory::ForkedReaders::may_read(handed_out)) {
    // Tensors that find no slot are offered meanwhile.
    held_slots_.add(index, handed_out);
  } else {
    return_slot(index);
  }
}

void ReceiverState::return_slot(std::uint32_t index) {
  places_[index].slot.give_back();
  if (!closed_ && !sender_closed_) grant_again(index);
}

void ReceiverState::return_held_slots() {
  if (held_slots_.empty()) return;
  const std::lock_guard<std::mutex> lock(port_->mutex());
  for (const std::uint32_t index : held_slots_.take()) return_slot(index);
}

}  // namespace farwrite::transfer
