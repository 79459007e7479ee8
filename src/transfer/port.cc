#include "transfer/port.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>

#include "core/mutex.h"
#include "device/channel_state.h"
#include "farwrite/internal/late.h"
#include "transfer/offer.h"
#include "transfer/receiver_state.h"

namespace farwrite::transfer {
namespace {

// A leader cannot be called back from the channel, so it looks around now and then: something may
// have closed its edge.
constexpr std::chrono::nanoseconds kLongestLead = std::chrono::milliseconds(100);
// Who polls memory looks again after a hundredth of what it has waited: soon at first, and seldom
// when the peer has stopped.
constexpr int kPausePart = 100;
constexpr std::chrono::nanoseconds kShortestPause = std::chrono::microseconds(20);
constexpr std::chrono::nanoseconds kLongestPause = std::chrono::milliseconds(10);
// What one drain() takes at most: a peer that never stops must not keep a sender from sending.
constexpr int kLongestDrain = 1024;
constexpr std::size_t kMaxPeerEdges = 65536;
constexpr std::chrono::nanoseconds kReportEvery = std::chrono::milliseconds(2);

ByteView view(const std::vector<std::byte>& bytes) { return {bytes.data(), bytes.size()}; }

std::optional<std::uint32_t> number_of(const std::string& key) {
  std::uint32_t number = 0;
  const char* const end = key.data() + key.size();
  const auto read = std::from_chars(key.data(), end, number);
  if (read.ec != std::errc() || read.ptr != end) return std::nullopt;
  return number;
}

Status late(const Channel& channel) {
  return internal::late({"wait for a tensor", channel.peer_name()}, channel.peer_state(),
                        "no tensor arrived in time",
                        "wait longer, or check whether the peer is alive");
}

}  // namespace

std::string key_of(std::uint32_t edge) { return std::to_string(edge); }

std::shared_ptr<Port> Port::of(const Channel& channel) {
  // Tensors keep their slots longer than the channel lives.
  static LandingTotals* const totals = new LandingTotals;
  return std::static_pointer_cast<Port>(channel.state_->extension([&] {
    auto port = std::make_shared<Port>();
    port->engine_ = std::make_shared<Engine>(channel, port, std::chrono::nanoseconds(0), *totals);
    port->lanes_ = channel.peer().lanes;
    port->peer_epoch_ = channel.peer().epoch;
    return port;
  }));
}

Status Port::check_free(const Channel& channel) {
  if (!channel.notifications_claimed()) return Status();
  return Status::error(StatusCode::kFailedPrecondition,
                       {"open an edge for tensors", channel.peer_name()},
                       "streams, or an engine of the C ABI, take the channel's notifications",
                       "connect another channel");
}

bool Port::in_use() {
  const core::Lock lock(mutex_);
  return !names_.empty() || !peer_edges_.empty();
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

std::uint64_t Port::send_limit_of(const Channel& channel) { return channel.state_->send_limit(); }

Status Port::wait(Channel& channel, const std::function<bool()>& arrived, core::Deadline deadline,
                  bool polled) {
  const auto began = std::chrono::steady_clock::now();
  core::Lock lock(mutex_);
  while (true) {
    if (arrived()) return Status();
    if (!ended_.ok()) return ended_;
    const std::chrono::nanoseconds left = deadline.remaining();
    if (left.count() <= 0) return late(channel);
    std::chrono::nanoseconds slice = kLongestLead;
    if (polled) {
      const auto part = (std::chrono::steady_clock::now() - began) / kPausePart;
      slice = std::clamp<std::chrono::nanoseconds>(part, kShortestPause, kLongestPause);
    }
    slice = std::min(slice, left);
    if (led_) {
      changed_.wait_for(mutex_, slice);
      continue;
    }
    led_ = true;
    lock.unlock();
    Result<Notification> next = channel.wait_notification(slice);
    Status outcome = next.ok() ? dispatch(*std::move(next)) : next.status();
    lock.lock();
    stop_leading(channel, outcome.code() != StatusCode::kDeadlineExceeded);
    if (outcome.ok() || outcome.code() == StatusCode::kDeadlineExceeded) continue;
    if (outcome.code() == StatusCode::kFailedPrecondition) return outcome;  // the user's handler
    if (ended_.ok()) ended_ = std::move(outcome);
  }
}

void Port::drain(Channel& channel) {
  core::Lock lock(mutex_);
  if (led_ || !ended_.ok()) return;
  led_ = true;
  lock.unlock();
  Status outcome;
  bool found = false;
  for (int i = 0; i < kLongestDrain && outcome.ok(); ++i) {
    Result<std::optional<Notification>> next = channel.try_notification();
    if (!next.ok()) {
      outcome = next.status();
    } else if (!next->has_value()) {
      break;
    } else {
      found = true;
      outcome = dispatch(**std::move(next));
    }
  }
  lock.lock();
  found = found || !outcome.ok();
  if (!outcome.ok()) ended_ = std::move(outcome);
  stop_leading(channel, found);
}

void Port::stop_leading(const Channel& channel, bool found) {
  led_ = false;
  changed_.notify_all();  // another thread may have to lead now
  // An event loop looks behind its arming: if a look that found nothing rang, it would never sleep.
  if (found) channel.state_->wake_event_loop();
}

void Port::wake_all(const Channel& channel) {
  changed_.notify_all();
  channel.state_->wake_event_loop();
}

Status Port::add_receiver(const std::string& name, const std::shared_ptr<ReceiverState>& receiver,
                          std::uint32_t& edge) {
  if (names_.contains(name)) {
    return Status::error(StatusCode::kAlreadyExists, {"open a tensor receiver"},
                         "\"" + name + "\" has a receiver on this channel already",
                         "close that one first, or use another name");
  }
  edge = ++last_edge_;
  names_[name] = edge;
  receivers_[edge] = receiver;
  return Status();
}

void Port::remove_receiver(const std::string& name, std::uint32_t edge) {
  receivers_.erase(edge);
  reports_.erase(edge);  // its CLOSED has the number
  const auto named = names_.find(name);
  if (named != names_.end() && named->second == edge) names_.erase(named);
}

void Port::report_taken(const Channel& channel, std::uint32_t lane, const TakenRecord& taken,
                        bool immediately) {
  reports_[taken.edge] = {lane, taken.sequence};
  if (immediately || std::chrono::steady_clock::now() - reported_ >= kReportEvery) {
    return send_reports();
  }
  if (std::exchange(reports_are_due_, true)) return;
  channel.state_->run_later(kReportEvery, [weak = weak_from_this()] {
    const std::shared_ptr<Port> self = weak.lock();
    if (self == nullptr) return;
    const core::Lock lock(self->mutex_);
    self->reports_are_due_ = false;
    self->send_reports();
  });
}

void Port::channel_closes() {
  const core::Lock lock(mutex_);
  send_reports();
}

void Port::send_reports() {
  if (reports_.empty()) return;
  reported_ = std::chrono::steady_clock::now();
  for (const auto& [edge, report] : reports_) {
    engine_->send_record(RecordType::kTaken, TakenRecord{edge, report.sequence}.encode(),
                         report.lane);
  }
  reports_.clear();
}

std::shared_ptr<PeerEdge> Port::find_edge(const std::string& name) const {
  for (auto edge = peer_edges_.rbegin(); edge != peer_edges_.rend(); ++edge) {
    if (edge->second->record.name == name) {
      return edge->second->complete() && !edge->second->closed ? edge->second : nullptr;
    }
  }
  return nullptr;
}

Status Port::dispatch(Notification notification) {
  Status taken = engine_->take(std::move(notification));
  // The peer's end must not go on sending into edges that have ended.
  if (taken.code() == StatusCode::kProtocolError) engine_->refuse_peer(taken);
  return taken;
}

std::shared_ptr<ReceiverState> Port::receiver_of(const std::string& edge) const {
  const std::optional<std::uint32_t> number = number_of(edge);
  const auto found = number.has_value() ? receivers_.find(*number) : receivers_.end();
  return found == receivers_.end() ? nullptr : found->second.lock();
}

PeerEdge* Port::peer_edge(const std::string& edge) const {
  const std::optional<std::uint32_t> number = number_of(edge);
  const auto found = number.has_value() ? peer_edges_.find(*number) : peer_edges_.end();
  return found == peer_edges_.end() ? nullptr : found->second.get();
}

Status Port::on_tensor(LandedTensor tensor) {
  std::shared_ptr<ReceiverState> receiver;  // goes after the lock
  const core::Lock lock(mutex_);
  receiver = receiver_of(tensor.edge());
  if (receiver != nullptr) receiver->take_push(std::move(tensor));
  return Status();
}

void Port::on_stale(const std::string& edge, ByteView description) {
  std::shared_ptr<ReceiverState> receiver;  // goes after the lock
  const core::Lock lock(mutex_);
  receiver = receiver_of(edge);
  if (receiver != nullptr) receiver->take_stale(description);
}

Status Port::on_misfit(const std::string& edge, PushVerdict verdict) {
  std::shared_ptr<ReceiverState> receiver;  // goes after the lock
  const core::Lock lock(mutex_);
  receiver = receiver_of(edge);
  if (receiver != nullptr) receiver->take_misfit(verdict);
  return Status();
}

// A late push: its edge is closed.
Status Port::on_unknown_slot(std::uint32_t /*slot*/) { return Status(); }

Status Port::on_message(Notification notification) {
  if ((notification.tag & kTagKindMask) != kRecordTag) {
    return malformed_record("a notification from outside the tensor protocol");
  }
  const ByteView message = view(notification.message);
  switch (static_cast<RecordType>(notification.tag & ~kTagKindMask)) {
    case RecordType::kEdge:
      return take_edge(message);
    case RecordType::kOffer:
      return take_offer(notification);
    case RecordType::kClosed:
      return take_closed(message);
    case RecordType::kTaken:
      return take_taken(message);
    default:
      return malformed_record("a record of unknown type");
  }
}

Status Port::take_edge(ByteView message) {
  Result<EdgeRecord> record = EdgeRecord::decode(message);
  if (!record.ok()) return record.status();
  if (record->lane >= lanes_) return malformed_record("an edge in a lane that does not exist");
  const core::Lock lock(mutex_);
  if (peer_edges_.size() >= kMaxPeerEdges) return malformed_record("too many edges");
  auto edge = std::make_shared<PeerEdge>();
  edge->record = *std::move(record);
  if (!peer_edges_.emplace(edge->record.edge, edge).second) {
    return malformed_record("an edge was announced twice");
  }
  return Status();
}

Status Port::on_slots(const std::string& key, std::size_t count) {
  const core::Lock lock(mutex_);
  PeerEdge* const edge = peer_edge(key);
  if (edge == nullptr) return malformed_record("slots of an unknown edge");
  edge->announced += count;
  if (edge->announced <= edge->record.slots) return Status();
  return malformed_record("more slots than were announced");
}

Status Port::on_reset(const std::string& key, std::uint32_t round) {
  const core::Lock lock(mutex_);
  PeerEdge* const edge = peer_edge(key);
  if (edge == nullptr) return malformed_record("credits of an unknown edge");
  edge->round = round;
  return Status();
}

Status Port::take_offer(Notification& notification) {
  Result<OfferRecord> offer = OfferRecord::decode(view(notification.message));
  if (!offer.ok()) return offer.status();
  std::shared_ptr<ReceiverState> receiver;  // goes after the lock
  const core::Lock lock(mutex_);
  const auto found = receivers_.find(offer->edge);
  if (found == receivers_.end()) return Status();  // its edge is closed; the lease goes back
  receiver = found->second.lock();
  if (receiver != nullptr) receiver->take_offer(*std::move(offer), notification, peer_epoch_);
  return Status();
}

Status Port::take_closed(ByteView message) {
  Result<ClosedRecord> record = ClosedRecord::decode(message);
  if (!record.ok()) return record.status();
  CreditTable::Counts credits;
  if (record->by_receiver) credits = engine_->forget_edge(key_of(record->edge));
  std::shared_ptr<ReceiverState> receiver;  // goes after the lock
  const core::Lock lock(mutex_);
  if (record->by_receiver) {
    const auto found = peer_edges_.find(record->edge);
    if (found == peer_edges_.end()) return malformed_record("the end of an unknown edge");
    found->second->closed = true;
    found->second->taken = std::max(found->second->taken, record->sequence);
    found->second->last_credits = credits;
    peer_edges_.erase(found);
    return Status();
  }
  const auto found = receivers_.find(record->edge);
  if (found == receivers_.end()) return Status();  // both have closed it
  receiver = found->second.lock();
  if (receiver != nullptr) receiver->sender_has_closed(*record);
  return Status();
}

Status Port::take_taken(ByteView message) {
  Result<TakenRecord> record = TakenRecord::decode(message);
  if (!record.ok()) return record.status();
  const core::Lock lock(mutex_);
  const auto found = peer_edges_.find(record->edge);
  if (found == peer_edges_.end()) return Status();  // it has waited while the edge was closed
  found->second->taken = std::max(found->second->taken, record->sequence);
  return Status();
}

}  // namespace farwrite::transfer
