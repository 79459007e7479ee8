#include "transfer/receiver_state.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "transfer/tail_flag.h"

namespace farwrite::transfer {
namespace {

constexpr std::string_view kOpen = "open a tensor receiver";
// Offers that are read at the same time.
constexpr std::size_t kReadAhead = 4;

Status invalid(std::string_view cause, std::string_view remedy) {
  return Status::error(StatusCode::kInvalidArgument, {kOpen}, cause, remedy);
}

}  // namespace

Result<std::shared_ptr<ReceiverState>> ReceiverState::open(const Channel& channel,
                                                           std::string_view name,
                                                           const ReceiverOptions& options) {
  if (!channel.valid()) return invalid("the channel handle is empty", "use one of Device's");
  std::shared_ptr<ReceiverState> self(new ReceiverState(channel, name, options));
  FARWRITE_RETURN_IF_ERROR(self->check());
  FARWRITE_RETURN_IF_ERROR(self->allocate_slots());
  FARWRITE_RETURN_IF_ERROR(self->announce());
  return self;
}

ReceiverState::ReceiverState(const Channel& channel, std::string_view name,
                             const ReceiverOptions& options)
    : channel_(channel),
      port_(Port::of(channel)),
      name_(name),
      options_(options),
      registrations_before_(Port::registrations_of(channel)),
      arrived_(/*overtaking=*/options.lowering == NotificationLowering::kTailFlag) {}

ReceiverState::~ReceiverState() {
  if (!fork_guard_.in_forked_child()) (void)close(std::chrono::seconds(1));
}

Status ReceiverState::check() const {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check(kOpen));
  if (name_.empty() || name_.size() > kMaxNameBytes) {
    return invalid("the name has " + std::to_string(name_.size()) + " bytes",
                   "use 1 to " + std::to_string(kMaxNameBytes));
  }
  if (options_.lane >= channel_.peer().lanes) {
    return invalid("lane " + std::to_string(options_.lane) + " of " +
                       std::to_string(channel_.peer().lanes),
                   "open both devices with more lanes, or use a lower one");
  }
  if (options_.lowering.has_value()) {
    FARWRITE_RETURN_IF_ERROR(Port::check_lowering(channel_, *options_.lowering));
    if (options_.lowering == NotificationLowering::kTailFlag &&
        options_.kind != EdgeKind::kStatic) {
      return Status::error(StatusCode::kUnsupported, {kOpen},
                           "a tail flag needs a tail whose place is known",
                           "use a static edge, or leave the choice to the channel");
    }
  }
  if (options_.kind == EdgeKind::kDynamic) return Status();
  if (options_.slots < 1 || options_.slots > kMaxSlots) {
    return invalid(std::to_string(options_.slots) + " slots",
                   "use 1 to " + std::to_string(kMaxSlots));
  }
  if (options_.kind == EdgeKind::kBounded && !options_.spec.dims.empty()) {
    return invalid("a bounded edge was given dims", "give max_bytes");
  }
  return options_.spec.bytes().status();
}

Status ReceiverState::allocate_slots() {
  terms_.kind = options_.kind;
  if (options_.kind == EdgeKind::kDynamic) return Status();
  terms_.spec = options_.spec;
  terms_.capacity =
      options_.kind == EdgeKind::kStatic ? *options_.spec.bytes() : options_.max_bytes;
  const std::uint64_t bytes = slot_bytes(terms_.capacity, options_.lowering);
  if (bytes < terms_.capacity) return invalid("max_bytes is too large", "use less");
  for (std::uint32_t i = 0; i < options_.slots; ++i) {
    Result<MemoryRegion> region = channel_.allocate(bytes);
    if (!region.ok()) return region.status();
    ++allocations_;
    // What was there before must not look like a push.
    std::memset(region->data(), 0, kSlotHeadBytes);
    places_.push_back(Place{*region, 0, StaticSlot(region->data(), counts_)});
    if (std::uint64_t* flag = flag_of(places_.back())) *flag = 0;
  }
  return Status();
}

Status ReceiverState::announce() {
  const std::lock_guard<std::mutex> lock(port_->mutex());
  if (!port_->ended().ok()) return port_->ended();
  const auto slots = static_cast<std::uint32_t>(places_.size());
  FARWRITE_RETURN_IF_ERROR(
      port_->add_receiver(name_, shared_from_this(), slots, terms_.edge, numbers_));
  announced_ = true;
  EdgeRecord edge;
  edge.edge = terms_.edge;
  edge.kind = options_.kind;
  edge.tail_flag = options_.lowering == NotificationLowering::kTailFlag;
  edge.lane = options_.lane;
  edge.slots = slots;
  edge.max_bytes = terms_.capacity;
  edge.name = name_;
  edge.spec = terms_.spec;
  std::vector<SlotsRecord::Entry> entries;
  for (std::uint32_t i = 0; i < slots; ++i) {
    Place& place = places_[i];
    place.number = numbers_[i];
    entries.push_back({{place.number, place.slot.grant()}, place.region.descriptor()});
  }
  std::vector<Completion> said{say(channel_, RecordType::kEdge, edge.encode(), options_.lane)};
  for (const auto& record :
       SlotsRecord::encode(terms_.edge, entries, channel_.max_message_bytes())) {
    said.push_back(say(channel_, RecordType::kSlots, record, options_.lane));
  }
  for (const Completion& completion : said) {
    if (completion.done()) FARWRITE_RETURN_IF_ERROR(completion.wait());
  }
  return Status();
}

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
        broken_ = malformed_record("a tail flag behind a head that is none");
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
  while (!unsaid_grants_.empty()) {
    CreditsRecord record;
    record.edge = terms_.edge;
    record.round = round_;
    const std::size_t count = std::min(unsaid_grants_.size(), CreditsRecord::kMaxEntries);
    record.credits.assign(unsaid_grants_.begin(), unsaid_grants_.begin() + count);
    const Completion said = say(channel_, RecordType::kGrant, record.encode(), options_.lane);
    // A full backlog empties some time; whoever grants or receives next says these, too.
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
    if (!unsaid_grants_.empty()) say_grants();
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
  received->on_gone = [weak = weak_from_this(), guard = fork_guard_, index = item.index] {
    if (guard.in_forked_child()) return;
    if (const std::shared_ptr<ReceiverState> self = weak.lock()) self->view_gone(index);
  };
  return ReceivedTensor(std::move(received));
}

void ReceiverState::view_gone(std::uint32_t index) {
  const std::lock_guard<std::mutex> lock(port_->mutex());
  places_[index].slot.give_back();
  if (!closed_ && !sender_closed_) grant_again(index);
}

Status ReceiverState::reset() {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("reset a tensor receiver"));
  std::vector<Item> dropped;  // offers give their leases back after the lock
  const std::lock_guard<std::mutex> lock(port_->mutex());
  if (closed_) {
    return Status::error(StatusCode::kFailedPrecondition, {"reset a tensor receiver"},
                         "the receiver is closed", "open it again");
  }
  dropped = arrived_.drop();
  dropped_unseen_ += dropped.size();
  ++round_;
  say_grants();
  std::vector<SlotCredits::Credit> renewed;
  for (Place& place : places_) {
    if (place.slot.revoke()) renewed.push_back({place.number, place.slot.grant()});
  }
  // Said even if no slot is granted: offers are told apart by the round.
  for (std::size_t first = 0; first == 0 || first < renewed.size();
       first += CreditsRecord::kMaxEntries) {
    CreditsRecord record;
    record.edge = terms_.edge;
    record.round = round_;
    const std::size_t last = std::min(renewed.size(), first + CreditsRecord::kMaxEntries);
    record.credits.assign(renewed.begin() + first, renewed.begin() + last);
    const Completion said = say(channel_, RecordType::kReset, record.encode(), options_.lane);
    if (said.done()) FARWRITE_RETURN_IF_ERROR(said.wait());
  }
  for (const Item& item : dropped) {
    if (item.offer != nullptr) continue;
    places_[item.index].slot.give_back();
    grant_again(item.index);
  }
  return Status();
}

TensorStats ReceiverState::stats() const {
  TensorStats stats;
  const std::uint64_t registrations = Port::registrations_of(channel_);
  const std::lock_guard<std::mutex> lock(port_->mutex());
  stats.pushed = counts_.landed;
  stats.offered = offered_;
  stats.aliased = aliased_.value();
  stats.read = read_.value();
  stats.allocations = allocations_ + read_allocations_.value();
  stats.registrations = registrations - registrations_before_;
  stats.requests = read_allocations_.value();
  stats.dropped_stale = counts_.stale;
  stats.dropped_malformed = counts_.malformed;
  stats.dropped_offers = dropped_offers_;
  stats.dropped_unseen = dropped_unseen_;
  stats.grants = counts_.grants;
  stats.revoked = counts_.revoked;
  for (const Place& place : places_) {
    switch (place.slot.state()) {
      case SlotState::kFree:
        ++stats.slots_free;
        break;
      case SlotState::kGranted:
        ++stats.slots_granted;
        break;
      case SlotState::kLanded:
        ++stats.slots_landed;
        break;
      case SlotState::kViewed:
        ++stats.slots_viewed;
        break;
    }
  }
  return stats;
}

Status ReceiverState::close(std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("close a tensor receiver"));
  const core::Deadline deadline = core::Deadline::after(timeout);
  std::vector<Item> dropped;  // offers give their leases back after the lock
  {
    const std::lock_guard<std::mutex> lock(port_->mutex());
    if (!std::exchange(closed_, true) && announced_) {
      dropped = arrived_.drop();
      dropped_unseen_ += dropped.size();
      for (const Item& item : dropped) {
        if (item.offer == nullptr) places_[item.index].slot.give_back();
      }
      for (Place& place : places_) (void)place.slot.revoke();
      port_->remove_receiver(name_, terms_.edge, numbers_);
      (void)say(channel_, RecordType::kClosed, ClosedRecord{terms_.edge, true, 0}.encode(),
                options_.lane);
      port_->wake_all();
    }
  }
  Status outcome;
  for (Place& place : places_) {
    Status closed = place.region.close(deadline.remaining());
    if (outcome.ok()) outcome = std::move(closed);
  }
  return outcome;
}

}  // namespace farwrite::transfer
