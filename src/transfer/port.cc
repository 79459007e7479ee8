#include "transfer/port.h"

#include <algorithm>
#include <utility>

#include "device/channel_state.h"
#include "transfer/dynamic_slot.h"
#include "transfer/receiver_state.h"

namespace farwrite::transfer {
namespace {

// A leader cannot be called back from the channel, so it looks around now and then: somebody may
// have closed its edge.
constexpr std::chrono::nanoseconds kLongestLead = std::chrono::milliseconds(100);
// Back-off of who polls memory.
constexpr std::chrono::nanoseconds kShortestPause = std::chrono::microseconds(20);
constexpr std::chrono::nanoseconds kLongestPause = std::chrono::milliseconds(1);
// What one drain() takes at most: a peer that never stops must not keep a sender from sending.
constexpr int kLongestDrain = 1024;
constexpr std::size_t kMaxPeerEdges = 65536;

ByteView view(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

Status late() {
  return Status::error(StatusCode::kDeadlineExceeded, {"wait for a tensor"},
                       "no tensor arrived in time",
                       "wait longer, or check whether the peer is alive");
}

}  // namespace

Completion say(Channel& channel, RecordType type, const std::vector<std::byte>& record,
               std::uint32_t lane) {
  return channel.send(view(record), tag_of(type), lane);
}

std::shared_ptr<Port> Port::of(const Channel& channel) {
  return std::static_pointer_cast<Port>(
      channel.state_->kept([]() -> std::shared_ptr<void> { return std::make_shared<Port>(); }));
}

fabric::LoweringChoice Port::lowering_of(const Channel& channel) {
  return *fabric::choose_lowering(channel.state_->capabilities());
}

Status Port::check_lowering(const Channel& channel, NotificationLowering forced) {
  Result<fabric::LoweringChoice> possible =
      fabric::choose_lowering(channel.state_->capabilities(), forced);
  if (!possible.ok()) return possible.status();
  const fabric::LoweringChoice used = lowering_of(channel);
  if (forced == NotificationLowering::kTailFlag || forced == used.lowering) return Status();
  return Status::error(StatusCode::kUnsupported, {"choose how writes notify"},
                       "this channel uses another lowering: " + used.reason,
                       "leave the choice to the channel");
}

std::uint64_t Port::registrations_of(const Channel& channel) {
  return channel.state_->registrations();
}

Status Port::wait(Channel& channel, const std::function<bool()>& arrived, core::Deadline deadline,
                  bool polled) {
  std::chrono::nanoseconds pause = kShortestPause;
  std::unique_lock<std::mutex> lock(mutex_);
  while (true) {
    if (arrived()) return Status();
    if (!ended_.ok()) return ended_;
    const std::chrono::nanoseconds left = deadline.remaining();
    if (left.count() <= 0) return late();
    const std::chrono::nanoseconds slice = std::min(left, polled ? pause : kLongestLead);
    pause = std::min(2 * pause, kLongestPause);
    if (led_) {
      changed_.wait_for(lock, slice);
      continue;
    }
    led_ = true;
    lock.unlock();
    Result<Notification> next = channel.wait_notification(slice);
    Status outcome = next.ok() ? dispatch(channel, *std::move(next)) : next.status();
    lock.lock();
    led_ = false;
    changed_.notify_all();
    if (outcome.ok() || outcome.code() == StatusCode::kDeadlineExceeded) continue;
    if (outcome.code() == StatusCode::kFailedPrecondition) return outcome;  // the user's handler
    if (ended_.ok()) ended_ = std::move(outcome);
  }
}

void Port::drain(Channel& channel) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (led_ || !ended_.ok()) return;
  led_ = true;
  lock.unlock();
  Status outcome;
  for (int i = 0; i < kLongestDrain && outcome.ok(); ++i) {
    Result<std::optional<Notification>> next = channel.try_notification();
    if (!next.ok()) {
      outcome = next.status();
    } else if (!next->has_value()) {
      break;
    } else {
      outcome = dispatch(channel, **std::move(next));
    }
  }
  lock.lock();
  led_ = false;
  if (!outcome.ok()) ended_ = std::move(outcome);
  changed_.notify_all();
}

Status Port::add_receiver(const std::string& name, const std::shared_ptr<ReceiverState>& receiver,
                          std::uint32_t slots, std::uint32_t& edge,
                          std::vector<std::uint32_t>& numbers) {
  if (names_.contains(name)) {
    return Status::error(StatusCode::kAlreadyExists, {"open a tensor receiver"},
                         "\"" + name + "\" has a receiver on this channel already",
                         "close that one first, or use another name");
  }
  if (slots_.size() + slots > kMaxSlotNumber) {
    return Status::error(StatusCode::kResourceExhausted, {"open a tensor receiver"},
                         "the channel has no slot numbers left", "use fewer slots");
  }
  edge = ++last_edge_;
  names_[name] = edge;
  receivers_[edge] = receiver;
  for (std::uint32_t index = 0; index < slots; ++index) {
    // A number comes again only after all others, so a late push of a closed edge finds nobody.
    while (slots_.contains(next_slot_)) next_slot_ = (next_slot_ + 1) & kMaxSlotNumber;
    slots_[next_slot_] = {receiver, index};
    numbers.push_back(next_slot_);
    next_slot_ = (next_slot_ + 1) & kMaxSlotNumber;
  }
  return Status();
}

void Port::remove_receiver(const std::string& name, std::uint32_t edge,
                           const std::vector<std::uint32_t>& numbers) {
  receivers_.erase(edge);
  const auto named = names_.find(name);
  if (named != names_.end() && named->second == edge) names_.erase(named);
  for (const std::uint32_t number : numbers) slots_.erase(number);
}

std::shared_ptr<PeerEdge> Port::find_edge(const std::string& name) const {
  for (auto edge = peer_edges_.rbegin(); edge != peer_edges_.rend(); ++edge) {
    if (edge->second->record.name == name) {
      return edge->second->complete() && !edge->second->closed ? edge->second : nullptr;
    }
  }
  return nullptr;
}

Status Port::dispatch(Channel& channel, const Notification& notification) {
  Status taken = take(channel, notification);
  // The peer's end must not go on sending into edges that have ended.
  if (taken.code() == StatusCode::kProtocolError) channel.state_->refuse_message(taken);
  return taken;
}

Status Port::take(Channel& channel, const Notification& notification) {
  const std::uint32_t kind = notification.tag & kTagKindMask;
  if (kind == kLandingTag) return land(notification.tag & ~kTagKindMask);
  if (kind != kRecordTag) {
    return malformed_record("a notification from outside the tensor protocol");
  }
  const ByteView message = view(notification.message);
  switch (static_cast<RecordType>(notification.tag & ~kTagKindMask)) {
    case RecordType::kEdge:
      return take_edge(channel, message);
    case RecordType::kSlots:
      return take_slots(message);
    case RecordType::kGrant:
      return take_credits(message, /*reset=*/false);
    case RecordType::kReset:
      return take_credits(message, /*reset=*/true);
    case RecordType::kOffer:
      return take_offer(channel, notification);
    case RecordType::kClosed:
      return take_closed(message);
  }
  return malformed_record("a record of unknown type");
}

Status Port::land(std::uint32_t number) {
  std::shared_ptr<ReceiverState> receiver;  // goes after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto place = slots_.find(number);
  if (place == slots_.end()) return Status();  // a late push: its edge is closed
  receiver = place->second.receiver.lock();
  if (receiver != nullptr) receiver->land(place->second.index);
  return Status();
}

Status Port::take_edge(const Channel& channel, ByteView message) {
  Result<EdgeRecord> record = EdgeRecord::decode(message);
  if (!record.ok()) return record.status();
  if (record->lane >= channel.peer().lanes) {
    return malformed_record("an edge in a lane that does not exist");
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  if (peer_edges_.size() >= kMaxPeerEdges) return malformed_record("too many edges");
  auto edge = std::make_shared<PeerEdge>();
  edge->record = *std::move(record);
  if (!peer_edges_.emplace(edge->record.edge, edge).second) {
    return malformed_record("an edge was announced twice");
  }
  return Status();
}

Status Port::take_slots(ByteView message) {
  Result<SlotsRecord> record = SlotsRecord::decode(message);
  if (!record.ok()) return record.status();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = peer_edges_.find(record->edge);
  if (found == peer_edges_.end()) return malformed_record("slots of an unknown edge");
  PeerEdge& edge = *found->second;
  for (SlotsRecord::Entry& entry : record->entries) {
    const bool fits = edge.slots.size() < edge.record.slots;
    if (!fits || !edge.credits.granted(entry.credit)) {
      return malformed_record("more slots than were announced");
    }
    edge.slots.push_back(std::move(entry));
  }
  return Status();
}

Status Port::take_credits(ByteView message, bool reset) {
  Result<CreditsRecord> record = CreditsRecord::decode(message);
  if (!record.ok()) return record.status();
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = peer_edges_.find(record->edge);
  if (found == peer_edges_.end()) return malformed_record("credits of an unknown edge");
  PeerEdge& edge = *found->second;
  for (const SlotCredits::Credit& credit : record->credits) {
    const bool known = std::any_of(edge.slots.begin(), edge.slots.end(), [&](const auto& entry) {
      return entry.credit.slot == credit.slot;
    });
    if (!known) return malformed_record("a credit for an unknown slot");
    if (reset) {
      edge.credits.reset(credit);
    } else if (!edge.credits.granted(credit)) {
      return malformed_record("a slot was granted twice");
    }
  }
  edge.round = record->round;
  return Status();
}

Status Port::take_offer(Channel& channel, const Notification& notification) {
  Result<OfferRecord> offer = OfferRecord::decode(view(notification.message));
  if (!offer.ok()) return offer.status();
  std::shared_ptr<ReceiverState> receiver;  // goes after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = receivers_.find(offer->edge);
  if (found == receivers_.end()) return Status();  // its edge is closed; the lease goes back
  receiver = found->second.lock();
  if (receiver != nullptr) {
    receiver->take_offer(*std::move(offer), notification.lent, channel.peer().epoch);
  }
  return Status();
}

Status Port::take_closed(ByteView message) {
  Result<ClosedRecord> record = ClosedRecord::decode(message);
  if (!record.ok()) return record.status();
  std::shared_ptr<ReceiverState> receiver;  // goes after the lock
  const std::lock_guard<std::mutex> lock(mutex_);
  if (record->by_receiver) {
    const auto found = peer_edges_.find(record->edge);
    if (found == peer_edges_.end()) return malformed_record("the end of an unknown edge");
    found->second->closed = true;
    peer_edges_.erase(found);
    return Status();
  }
  const auto found = receivers_.find(record->edge);
  if (found == receivers_.end()) return Status();  // both have closed it
  receiver = found->second.lock();
  if (receiver != nullptr) receiver->sender_has_closed(record->sequence);
  return Status();
}

}  // namespace farwrite::transfer
