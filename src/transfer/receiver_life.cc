// How a receiver begins and ends: slots, announcement, abort, close; and what it counts.
#include <algorithm>
#include <cstring>
#include <utility>

#include "core/mutex.h"
#include "device/name_table.h"
#include "transfer/receiver_state.h"
#include "transfer/tail_flag.h"

namespace farwrite::transfer {
namespace {

constexpr std::string_view kOpenReceiver = "open a tensor receiver";

Status invalid(std::string_view cause, std::string_view remedy) {
  return Status::error(StatusCode::kInvalidArgument, {kOpenReceiver}, cause, remedy);
}

}  // namespace

Result<std::shared_ptr<ReceiverState>> ReceiverState::open(const Channel& channel,
                                                           std::string_view name,
                                                           const ReceiverOptions& options) {
  if (!channel.valid()) {
    return invalid("the channel handle is empty",
                   "use a channel that connect() or accept() returned");
  }
  FARWRITE_RETURN_IF_ERROR(Port::check_free(channel));
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
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check(kOpenReceiver));
  FARWRITE_RETURN_IF_ERROR(device::check_name(kOpenReceiver, name_));
  if (options_.lane >= channel_.peer().lanes) {
    return invalid(
        "lane " + std::to_string(options_.lane) + " of " + std::to_string(channel_.peer().lanes),
        "open both devices with more lanes, or use a lower one");
  }
  if (options_.lowering.has_value()) {
    FARWRITE_RETURN_IF_ERROR(Port::check_lowering(channel_, *options_.lowering));
    if (options_.lowering == NotificationLowering::kTailFlag &&
        options_.kind != EdgeKind::kStatic) {
      return Status::error(StatusCode::kUnsupported, {kOpenReceiver},
                           "a tail flag requires a tail at a known place",
                           "let the edge be static, or leave the choice to the channel");
    }
  }
  if (options_.kind == EdgeKind::kDynamic) return Status();
  if (options_.slots < 1 || options_.slots > kMaxSlots) {
    return invalid(std::to_string(options_.slots) + " slots",
                   "use 1 to " + std::to_string(kMaxSlots));
  }
  if (options_.kind == EdgeKind::kBounded && !options_.spec.dims.empty()) {
    return invalid("it is bounded and was given dims", "give max_bytes");
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
    regions_.push_back(*std::move(region));
    if (options_.lowering == NotificationLowering::kTailFlag) *flag_of(i) = 0;
  }
  return Status();
}

Status ReceiverState::announce() {
  const core::Lock lock(port_->mutex());
  if (!port_->ended().ok()) return port_->ended();
  FARWRITE_RETURN_IF_ERROR(port_->add_receiver(name_, shared_from_this(), terms_.edge));
  key_ = key_of(terms_.edge);
  EdgeRecord edge;
  edge.edge = terms_.edge;
  edge.kind = options_.kind;
  edge.tail_flag = options_.lowering == NotificationLowering::kTailFlag;
  edge.lane = options_.lane;
  edge.slots = static_cast<std::uint32_t>(regions_.size());
  edge.max_bytes = terms_.capacity;
  edge.name = name_;
  edge.spec = terms_.spec;
  const std::vector<std::byte> record = edge.encode();
  const Completion sent = port_->engine().send({record.data(), record.size()},
                                               tag_of(RecordType::kEdge), options_.lane);
  if (sent.done() && !sent.wait().ok()) {
    // The peer does not have the edge yet, and must not receive its end.
    port_->remove_receiver(name_, terms_.edge);
    return sent.wait();
  }
  announced_ = true;
  if (regions_.empty()) return Status();
  auto slots = port_->engine().add_slots(key_, options_.lane, regions_, terms_.capacity);
  if (!slots.ok()) return slots.status();
  slots_ = *std::move(slots);
  last_flags_.resize(slots_.size());
  return Status();
}

Status ReceiverState::reset() {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("reset a tensor receiver"));
  std::vector<Item> dropped;  // offers give their leases back after the lock
  const core::Lock lock(port_->mutex());
  if (closed_) {
    return Status::error(StatusCode::kFailedPrecondition, {"reset a tensor receiver"},
                         "the receiver is closed", "open it again");
  }
  // The reset goes before the grants of what is dropped.
  port_->engine().abort(key_, options_.lane, ++round_);
  dropped = arrived_.drop();
  dropped_unseen_ += dropped.size();
  report_taken();
  return Status();
}

Status ReceiverState::close(std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("close a tensor receiver"));
  const core::Deadline deadline = core::Deadline::after(timeout);
  std::vector<Item> dropped;  // offers give their leases back after the lock
  bool removed = false;
  {
    const core::Lock lock(port_->mutex());
    removed = !std::exchange(closed_, true) && announced_;
    if (removed) {
      const std::uint64_t taken = this->taken();
      dropped = arrived_.drop();
      dropped_unseen_ += dropped.size();
      port_->engine().close_edge(key_);
      port_->remove_receiver(name_, terms_.edge);
      port_->engine().send_record(RecordType::kClosed,
                                  ClosedRecord{terms_.edge, true, taken}.encode(), options_.lane);
      port_->wake_all(channel_);
    }
  }
  // Offers that nothing has taken yet go back, too: a sender may wait for their memory.
  if (removed) port_->drain(channel_);
  Status outcome;
  for (MemoryRegion& region : regions_) {
    Status closed = region.close(deadline.remaining());
    if (outcome.ok()) outcome = std::move(closed);
  }
  return outcome;
}

TensorStats ReceiverState::stats() const {
  TensorStats stats;
  if (fork_guard_.in_forked_child()) return stats;
  const std::uint64_t registrations = Port::registrations_of(channel_);
  const core::Lock lock(port_->mutex());
  const Engine::SlotStats slots = port_->engine().stats(slots_);
  stats.pushed = slots.counts.landed;
  stats.offered = offered_;
  stats.aliased = aliased_.value();
  stats.read = read_.value();
  stats.eager = eager_.value();
  stats.allocations = allocations_ + read_allocations_.value() + eager_allocations_.value();
  stats.registrations = registrations - registrations_before_;
  stats.requests = read_allocations_.value();
  stats.dropped_stale = slots.counts.stale;
  stats.dropped_malformed = slots.counts.malformed;
  stats.dropped_offers = dropped_offers_;
  stats.dropped_unseen = dropped_unseen_;
  stats.grants = slots.counts.grants;
  stats.revoked = slots.counts.revoked;
  const auto in_state = [&](SlotState state) {
    return slots.in_state.at(static_cast<std::size_t>(state));
  };
  stats.slots_free = in_state(SlotState::kFree);
  stats.slots_granted = in_state(SlotState::kGranted);
  stats.slots_landed = in_state(SlotState::kLanded);
  stats.slots_viewed = in_state(SlotState::kViewed);
  return stats;
}

}  // namespace farwrite::transfer
