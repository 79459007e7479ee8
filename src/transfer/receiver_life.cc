// How a receiver begins and ends: slots, announcement, abort, close; and what it counts.
#include <algorithm>
#include <cstring>
#include <utility>

#include "device/name_table.h"
#include "transfer/receiver_state.h"
#include "transfer/tail_flag.h"

namespace farwrite::transfer {
namespace {

constexpr std::string_view kOpen = "open a tensor receiver";

Status invalid(std::string_view cause, std::string_view remedy) {
  return Status::error(StatusCode::kInvalidArgument, {kOpen}, cause, remedy);
}

}  // namespace

Result<std::shared_ptr<ReceiverState>> ReceiverState::open(const Channel& channel,
                                                           std::string_view name,
                                                           const ReceiverOptions& options) {
  if (!channel.valid()) {
    return invalid("the channel handle is empty",
                   "use a channel from Device::connect() or accept()");
  }
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
  FARWRITE_RETURN_IF_ERROR(device::check_name(kOpen, name_));
  if (options_.lane >= channel_.peer().lanes) {
    return invalid(
        "lane " + std::to_string(options_.lane) + " of " + std::to_string(channel_.peer().lanes),
        "open both devices with more lanes, or use a lower one");
  }
  if (options_.lowering.has_value()) {
    FARWRITE_RETURN_IF_ERROR(Port::check_lowering(channel_, *options_.lowering));
    if (options_.lowering == NotificationLowering::kTailFlag &&
        options_.kind != EdgeKind::kStatic) {
      return Status::error(StatusCode::kUnsupported, {kOpen},
                           "a tail flag requires a tail at a known place",
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
  Completion said = say(channel_, RecordType::kEdge, edge.encode(), options_.lane);
  if (said.done() && !said.wait().ok()) {
    // The peer has not heard of the edge, and must not hear of its end.
    port_->remove_receiver(name_, terms_.edge, numbers_);
    return said.wait();
  }
  announced_ = true;
  for (const auto& record :
       SlotsRecord::encode(terms_.edge, entries, channel_.max_message_bytes())) {
    said = say(channel_, RecordType::kSlots, record, options_.lane);
    if (said.done()) FARWRITE_RETURN_IF_ERROR(said.wait());
  }
  return Status();
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
  unsaid_reset_.clear();
  for (Place& place : places_) {
    if (!place.slot.revoke()) continue;
    const SlotCredits::Credit credit{place.number, place.slot.grant()};
    const auto unsaid = std::find_if(unsaid_grants_.begin(), unsaid_grants_.end(),
                                     [&](const auto& one) { return one.slot == credit.slot; });
    if (unsaid != unsaid_grants_.end()) {
      *unsaid = credit;  // the sender never had the old one
    } else {
      unsaid_reset_.push_back(credit);
    }
  }
  // Said even if no slot is granted: offers are told apart by the round.
  reset_unsaid_ = true;
  for (const Item& item : dropped) {
    if (item.offer != nullptr) continue;
    Place& place = places_[item.index];
    place.slot.give_back();
    unsaid_grants_.push_back({place.number, place.slot.grant()});
  }
  say_grants();
  return Status();
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
      unsaid_grants_.clear();
      reset_unsaid_ = false;
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

}  // namespace farwrite::transfer
