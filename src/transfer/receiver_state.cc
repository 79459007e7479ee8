#include "transfer/receiver_state.h"

#include <algorithm>
#include <utility>

#include "core/mutex.h"
#include "farwrite/internal/late.h"
#include "transfer/tail_flag.h"

namespace farwrite::transfer {
namespace {

constexpr std::string_view kReceive = "receive a tensor";
// Offers that are read at the same time: a few of any size, for the memory that they take, and more
// small ones, so that a round trip serves many of them. Into memory of the program's allocator,
// which may have little, only the few.
constexpr std::size_t kReadAhead = 4;
constexpr std::size_t kMostReadAhead = 64;
constexpr std::uint64_t kSmallReadAheadBytes = 64 * 1024;  // all together
// Offers that a receiver may be behind: each costs its description. Of those with a tensor in them
// an honest sender has fewer under way (kMaxEagerAhead).
constexpr std::size_t kMaxArrived = 1 << 16;

std::string tensors(std::uint64_t count) {
  return std::to_string(count) + (count == 1 ? " tensor" : " tensors");
}

}  // namespace

std::uint64_t* ReceiverState::flag_of(std::size_t slot) const {
  return tail_flag_at(regions_[slot].data(), terms_.capacity);
}

void ReceiverState::sender_has_closed(const ClosedRecord& record) {
  port_->mutex().is_held_here();
  sender_closed_ = true;
  abandoned_ = record.abandoned;
  closing_sequence_ = record.sequence;
  port_->engine().stop_granting(key_);
  report_taken();
  port_->send_reports();  // the sender waits for them
}

std::uint64_t ReceiverState::taken() const {
  std::uint64_t next = arrived_.last() + 1;
  // What has not come before the end will not come.
  if (sender_has_ended()) next = std::max(next, closing_sequence_ + 1);
  if (!arrived_.ready().empty()) next = std::min(next, arrived_.ready().front().sequence);
  if (!resolving_.empty()) next = std::min(next, *resolving_.begin());
  return next - 1;
}

void ReceiverState::report_taken() {
  if (closed_ || taken() <= reported_) return;
  const bool much = taken() - reported_ >= kReportAtLeastEvery;
  if (!sender_closed_ && !much && !arrived_.ready().empty()) return;
  reported_ = taken();
  port_->report_taken(channel_, options_.lane, {terms_.edge, reported_}, sender_closed_ || much);
}

// Tail flags may come behind the record that says so.
bool ReceiverState::sender_has_ended() const {
  const bool overtaken = options_.lowering == NotificationLowering::kTailFlag;
  return sender_closed_ && (!overtaken || arrived_.last() >= closing_sequence_);
}

// It is known by its number that it will not come.
void ReceiverState::drop_stale(std::uint64_t sequence) {
  if (!arrived_.expects(sequence)) return;
  arrived_.add(sequence, std::nullopt);
  report_taken();
}

void ReceiverState::take_push(LandedTensor tensor) {
  port_->mutex().is_held_here();
  if (closed_) return;
  Result<PushDescription> push = PushDescription::decode(tensor.description());
  if (!push.ok() || !terms_.fit(*push, tensor.bytes())) {
    tensor.refuse();
    return take_misfit(PushVerdict::kMalformed);
  }
  if (!arrived_.expects(push->sequence)) {
    ++dropped_unseen_;
    return;
  }
  const std::uint64_t sequence = push->sequence;
  arrived_.add(sequence, Item{std::move(tensor), *std::move(push), nullptr, sequence, round_});
}

void ReceiverState::take_stale(ByteView description) {
  port_->mutex().is_held_here();
  Result<PushDescription> push = PushDescription::decode(description);
  if (push.ok()) drop_stale(push->sequence);
}

void ReceiverState::take_misfit(PushVerdict verdict) {
  port_->mutex().is_held_here();
  // Without notifications only its number could have told which one is missing now.
  const bool overtaking = options_.lowering == NotificationLowering::kTailFlag;
  if (overtaking && verdict == PushVerdict::kMalformed) {
    broken_ = malformed_record("a tail flag behind a malformed head");
  }
}

void ReceiverState::take_offer(OfferRecord offer, Notification& message, std::uint64_t epoch) {
  port_->mutex().is_held_here();
  if (closed_) return;
  ++offered_;
  std::optional<std::uint64_t> lent_bytes;
  if (message.lent.valid()) lent_bytes = message.lent.size();
  OfferVerdict verdict = judge_offer(offer, terms_, round_, epoch, lent_bytes);
  if (verdict == OfferVerdict::kWelcome && !arrived_.expects(offer.sequence)) {
    verdict = OfferVerdict::kMalformed;
  }
  if (offer.eager.size > 0 && arrived_.waiting() >= kMaxEagerAhead && broken_.ok()) {
    broken_ = malformed_record("more tensors in their offers than wait for their report");
  }
  if (arrived_.waiting() >= kMaxArrived && broken_.ok()) {
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
  auto welcome = std::make_shared<OfferedTensor>(std::move(offer), std::move(message.message),
                                                 std::move(message.lent));
  arrived_.add(sequence, Item{{}, {}, std::move(welcome), sequence, round_});
}

void ReceiverState::look_at_flags() {
  for (std::size_t i = 0; i < slots_.size(); ++i) {
    if (!port_->engine().is_granted(*slots_[i])) continue;
    const std::uint64_t seen = load_tail_flag(flag_of(i));
    if (std::exchange(last_flags_[i], seen) == seen) continue;
    Engine::ArrivedPush push = port_->engine().land(slots_[i]->slot.number());
    if (push.verdict == PushVerdict::kLanded) {
      take_push(std::move(push.tensor));
    } else if (push.verdict == PushVerdict::kStale) {
      take_stale({push.description.data(), push.description.size()});
    } else {
      take_misfit(push.verdict);
    }
  }
}

Status ReceiverState::wait_for(core::Deadline deadline, const std::function<void()>& take) {
  const bool polled = options_.lowering == NotificationLowering::kTailFlag;
  const auto arrived = [&] {
    port_->mutex().is_held_here();
    port_->engine().flush();
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
  return waited.code() == StatusCode::kDeadlineExceeded ? broke_off(waited) : Status();
}

Result<ReceivedTensor> ReceiverState::receive(std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check(kReceive));
  const core::Deadline deadline = core::Deadline::after(timeout);
  if (timeout.count() <= 0) port_->drain(channel_);
  port_->engine().grant_unread();
  std::optional<Item> item;
  Status ended;
  const Status waited = wait_for(deadline, [&] {
    port_->mutex().is_held_here();
    std::deque<Item>& ready = arrived_.ready();
    if (ready.empty()) {
      ended = end();
      return;
    }
    item = std::move(ready.front());
    ready.pop_front();
    if (item->offer == nullptr) {
      item->pushed.view();
      report_taken();
    } else {
      resolving_.insert(item->sequence);
    }
  });
  if (item.has_value()) return resolve(*std::move(item), deadline);
  if (!ended.ok()) return ended;
  return broke_off(waited);
}

Status ReceiverState::end() const {
  if (!broken_.ok()) return broken_;
  if (closed_) {
    return Status::error(StatusCode::kCancelled, {kReceive}, "the receiver is closed",
                         "open it again");
  }
  if (arrived_.count() < closing_sequence_) {
    return Status::error(StatusCode::kUnavailable, {kReceive},
                         "of the stream \"" + name_ + "\" " + std::to_string(arrived_.count()) +
                             " of " + tensors(closing_sequence_) + " arrived",
                         "send the others again");
  }
  if (abandoned_) {
    return Status::error(StatusCode::kUnavailable, {kReceive},
                         "the sender of \"" + name_ + "\" abandoned the stream after " +
                             tensors(closing_sequence_) + ", without closing it",
                         "look for the error of the sending program");
  }
  return Status::error(StatusCode::kEndOfStream, {kReceive},
                       "the sender of \"" + name_ + "\" has closed after " +
                           tensors(closing_sequence_) + ", and everything was received",
                       "open another edge for more");
}

Status ReceiverState::broke_off(const Status& reason) const {
  if (reason.code() == StatusCode::kDeadlineExceeded) {
    return internal::late({kReceive, channel_.peer_name()}, channel_.peer_state(),
                          "no tensor of \"" + name_ + "\" arrived in time",
                          "wait longer, or check whether the peer is alive");
  }
  if (reason.code() == StatusCode::kFailedPrecondition) return reason;  // of this call
  const core::Lock lock(port_->mutex());
  return broke_off_after(arrived_.count(), reason);
}

Status ReceiverState::broke_off_after(std::uint64_t count, const Status& reason) const {
  return Status(reason.code(), std::string(kReceive) + ": the stream \"" + name_ +
                                   "\" broke off after " + tensors(count) + ": " +
                                   reason.message());
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
  if (item.offer == nullptr) return hand_out(std::move(item));
  const Result<OfferedTensor::Start> started =
      item.offer->start(channel_, options_.copy_offers, options_.allocator, deadline.remaining());
  if (started.ok() && started.value() == OfferedTensor::Start::kReading) {
    read_allocations_.add();
    // Where the peer's memory is mapped, reading is copying, and over.
    if (!channel_.maps_peer_memory()) read_ahead(item.offer->bytes());
  }
  Result<ReceivedTensor> received = started.ok() ? item.offer->finish(deadline.remaining())
                                                 : Result<ReceivedTensor>(started.status());
  if (received.ok()) count(*received);
  const core::Lock lock(port_->mutex());
  resolving_.erase(item.sequence);
  const StatusCode code = received.status().code();
  if (code == StatusCode::kPeerDead || code == StatusCode::kUnavailable) {
    received =
        broke_off_after(item.sequence - 1, received.status());  // its bytes went with the peer
  }
  // It stays the next one after any error, or the stream would go on without it.
  if (!received.ok() && !closed_ && item.round == round_) put_back(std::move(item));
  report_taken();
  return received;
}

void ReceiverState::count(const ReceivedTensor& received) {
  switch (received.arrival()) {
    case Arrival::kPushed:
      break;  // its slot is counted
    case Arrival::kAliased:
      return aliased_.add();
    case Arrival::kRead:
      return read_.add();
    case Arrival::kEager:
      if (received.size() > 0) eager_allocations_.add();
      return eager_.add();
  }
}

void ReceiverState::put_back(Item item) {
  std::deque<Item>& ready = arrived_.ready();
  const auto later = std::ranges::upper_bound(ready, item.sequence, {}, &Item::sequence);
  ready.insert(later, std::move(item));
}

void ReceiverState::read_ahead(std::uint64_t first_bytes) {
  for (const auto& offer : take_in_offers(first_bytes)) {
    // What fails now is tried again, and reported, when it is its turn.
    const auto started = offer->start_ahead(channel_, options_.copy_offers, options_.allocator);
    if (started.ok() && started.value() == OfferedTensor::Start::kReading) read_allocations_.add();
  }
}

std::vector<std::shared_ptr<OfferedTensor>> ReceiverState::take_in_offers(
    std::uint64_t first_bytes) {
  const std::size_t most = options_.allocator == nullptr ? kMostReadAhead : kReadAhead;
  bool few = false;
  {
    const core::Lock lock(port_->mutex());
    few = arrived_.ready().size() < most;
  }
  // A thread that waits for a tensor takes no notification behind it, so the next offers are still
  // in the lane. Only then: what is left there holds the sender back.
  if (few) port_->drain(channel_);
  std::vector<std::shared_ptr<OfferedTensor>> next;
  const core::Lock lock(port_->mutex());
  const std::deque<Item>& ready = arrived_.ready();
  std::uint64_t room = kSmallReadAheadBytes - std::min(first_bytes, kSmallReadAheadBytes);
  for (std::size_t i = 0; i < std::min(ready.size(), most - 1); ++i) {
    if (ready[i].offer == nullptr) continue;
    const std::uint64_t bytes = ready[i].offer->bytes();
    if (i >= kReadAhead - 1 && bytes > room) break;
    room -= std::min(bytes, room);
    next.push_back(ready[i].offer);
  }
  return next;
}

ReceivedTensor ReceiverState::hand_out(Item item) {
  auto received = std::make_shared<Received>();
  received->spec = {terms_.spec.dtype, terms_.spec.item_bytes, std::move(item.push.dims)};
  received->data = item.pushed.data();
  received->bytes = item.pushed.bytes();
  received->sequence = item.push.sequence;
  received->landed = std::move(item.pushed);
  return ReceivedTensor(std::move(received));
}

}  // namespace farwrite::transfer
