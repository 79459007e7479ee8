// A channel's data plane: operations, notifications, aliases.
#include <algorithm>
#include <string>
#include <utility>

#include "core/trace.h"
#include "device/channel_intake.h"
#include "device/channel_lane.h"
#include "device/channel_state.h"
#include "device/device_state.h"
#include "device/operation_trace.h"

namespace farwrite::device {
namespace {

std::string_view name_of(const fabric::Operation& operation) {
  switch (operation.kind) {
    case fabric::OperationKind::kWrite:
      return "write";
    case fabric::OperationKind::kRead:
      return "read";
    case fabric::OperationKind::kNotify:
      return "notify";
    case fabric::OperationKind::kMessage:
      return "send";
    case fabric::OperationKind::kFlush:
      return "flush";
    case fabric::OperationKind::kRecord:
      return "lend";
    case fabric::OperationKind::kEnd:
      return "close the channel";
  }
  return "post";
}

std::uint64_t bytes_of(const fabric::Operation& operation) {
  return operation.kind == fabric::OperationKind::kRead
             ? operation.destination.size
             : operation.head.size + operation.source.size;
}

Status past_the_end(std::string_view operation, const std::string& peer, std::uint64_t offset,
                    std::uint64_t bytes, std::uint64_t size) {
  return Status::error(StatusCode::kOutOfRange, {operation, peer},
                       "offset " + std::to_string(offset) + " + " + std::to_string(bytes) +
                           " bytes ends past the region's " + std::to_string(size) + " bytes",
                       "stay inside the region");
}

}  // namespace

Completion ChannelState::post(RemoteRegionState* remote, std::uint32_t lane,
                              fabric::Operation operation) {
  const std::uint64_t posted = core::trace_clock();
  const core::Gate::Pass pass(gate_);
  if (Status bad = check(remote, lane, operation); !bad.ok()) [[unlikely]] {
    return Completion(std::move(bad));
  }
  const bool over = life_.peer_over();
  if (!pass || (over && !may_still_read(remote, operation))) [[unlikely]] {
    return Completion(unusable(name_of(operation)));
  }
  if (remote != nullptr) {
    if (!remote->reached()) [[unlikely]] {
      if (Status bad = reach(*remote, name_of(operation)); !bad.ok()) {
        return Completion(std::move(bad));
      }
    }
    // Where nothing goes on after post(), the caller's handle keeps the window, and a reference
    // without a count saves two atomic operations.
    const std::shared_ptr<fabric::RemoteWindow>& window = remote->window();
    operation.window = capabilities_.ends_in_post ? std::shared_ptr<fabric::RemoteWindow>(
                                                        std::shared_ptr<void>(), window.get())
                                                  : window;
  }
  const core::Inside inside(this);
  Completion completion = start_operation(lane, operation);
  if (completion.done() && !completion.wait().ok()) [[unlikely]]
    return completion;
  count(operation);
  if (posted != 0) [[unlikely]] {
    trace_operation({name_of(operation), posted, bytes_of(operation), lane, operation.tag},
                    peer_name_, peer_.fabric, completion);
  }
  return completion;
}

bool ChannelState::may_still_end() const {
  // Where memory is mapped, only our own polling ends operations, and it has come round by then.
  return life_.left_in_good_order() && !(capabilities_.maps_peer_memory && life_.drained());
}

bool ChannelState::may_still_read(const RemoteRegionState* remote,
                                  const fabric::Operation& operation) const {
  return operation.kind == fabric::OperationKind::kRead && remote->leased() && life_.peer_lingers();
}

Completion ChannelState::start_operation(std::uint32_t lane, const fabric::Operation& operation) {
  return lowered_ == nullptr ? post_to_link(lane, operation) : lowered_->post(lane, operation);
}

void ChannelState::lower_notified_writes() {
  // Called back with no call of the channel under way, perhaps after its end.
  const auto post = [weak = weak_from_this()](std::uint32_t lane,
                                              const fabric::Operation& operation) {
    const std::shared_ptr<ChannelState> self = weak.lock();
    if (self == nullptr) return Completion(Status(StatusCode::kCancelled, "the channel has ended"));
    const core::Gate::Pass pass(self->gate_);
    if (!pass) return Completion(self->unusable(name_of(operation)));
    const core::Inside inside(self.get());
    return self->post_to_link(lane, operation);
  };
  lowered_ = std::make_shared<fabric::NotifiedWrites>(static_cast<std::uint32_t>(lanes_.size()),
                                                      to_string(peer_.fabric), peer_name_, post);
}

std::shared_ptr<void> ChannelState::kept(const std::function<std::shared_ptr<void>()>& make) {
  std::call_once(kept_made_, [&] { kept_ = make(); });
  return kept_;
}

std::uint64_t ChannelState::registrations() const { return device_->stats().registrations; }

Completion ChannelState::post_to_link(std::uint32_t lane, const fabric::Operation& operation) {
  Completion completion = link_.get()->lane(lane).post(operation);
  if (completion.done()) return completion;
  // What is read from a peer that then closes in good order still comes; its lane's end ends it.
  const bool reads = operation.kind == fabric::OperationKind::kRead;
  pending_.add(completion.state(), reads && !capabilities_.maps_peer_memory
                                       ? PendingOperations::Kind::kAwaitedReads
                                       : PendingOperations::Kind::kUntilTheEnd);
  // The peer may have gone since the caller looked, and what was pending then been abandoned.
  // A read that is allowed now ends with its lane.
  if (life_.peer_over() && !reads && !may_still_end()) {
    pending_.abandon(unusable(name_of(operation)), /*reads_too=*/false);
  }
  if (operation.kind == fabric::OperationKind::kFlush) {  // it may wait on any of them
    for (const auto& any : lanes_) any->expect_progress();
  } else {
    lanes_[lane]->expect_progress();
  }
  return completion;
}

Status ChannelState::reach(RemoteRegionState& remote, std::string_view operation) {
  if (device_->on_own_thread()) {
    // The answer may need this very thread.
    if (remote.reach(core::Deadline::after({})).ok()) return Status();
    return Status::error(StatusCode::kFailedPrecondition, {operation, peer_name_},
                         "lent memory was mapped for the first time inside a callback",
                         "map it from another thread");
  }
  // A silent peer may come back; a channel that ends, ends the wait.
  return remote.reach(core::Deadline::never());
}

Status ChannelState::check(const RemoteRegionState* remote, std::uint32_t lane,
                           const fabric::Operation& operation) const {
  if (device_->fork_guard().in_forked_child()) [[unlikely]] {
    return device_->fork_guard().check(name_of(operation));
  }
  if (lane >= peer_.lanes) [[unlikely]] {
    return Status::error(StatusCode::kInvalidArgument, {name_of(operation), peer_name_},
                         "lane " + std::to_string(lane) + " of " + std::to_string(peer_.lanes),
                         "open both devices with more lanes, or use a lower one");
  }
  const bool transfers = operation.kind == fabric::OperationKind::kWrite ||
                         operation.kind == fabric::OperationKind::kRead;
  if (!transfers) {
    if (operation.source.size <= capabilities_.max_message_bytes) return Status();
    return Status::error(StatusCode::kInvalidArgument, {"send", peer_name_},
                         "the message has " + std::to_string(operation.source.size) + " bytes",
                         "send at most " + std::to_string(capabilities_.max_message_bytes) +
                             ", or write the bytes into a region");
  }
  if (remote == nullptr || remote->channel() != this) [[unlikely]] {
    return Status::error(StatusCode::kInvalidArgument, {name_of(operation), peer_name_},
                         remote == nullptr ? "the region handle is empty"
                                           : "the region was opened through another channel",
                         "use a region from this channel's lookup() or open()");
  }
  if (operation.head.size > kMaxHeadBytes) [[unlikely]] {
    return Status::error(StatusCode::kInvalidArgument, {name_of(operation), peer_name_},
                         "the head has " + std::to_string(operation.head.size) + " bytes",
                         "put at most " + std::to_string(kMaxHeadBytes) + " there");
  }
  const bool writes = operation.kind == fabric::OperationKind::kWrite;
  const RegionDescriptor& descriptor = remote->descriptor();
  if (writes != (descriptor.access == Access::kWrite)) [[unlikely]] {
    return Status::error(
        StatusCode::kPermissionDenied, {name_of(operation), peer_name_},
        writes ? "the peer's region is for reading only" : "the peer's region is for writing only",
        writes ? "use memory that the peer allocated with Channel::allocate()"
               : "use memory that the peer allocated with Device::allocate()");
  }
  const std::uint64_t bytes = bytes_of(operation);
  if (operation.offset > descriptor.length || bytes > descriptor.length - operation.offset)
      [[unlikely]] {
    return past_the_end(name_of(operation), peer_name_, operation.offset, bytes, descriptor.length);
  }
  return Status();
}

void ChannelState::count(const fabric::Operation& operation) {
  switch (operation.kind) {
    case fabric::OperationKind::kWrite:
      writes_.add();
      bytes_written_.add(bytes_of(operation));
      if (operation.notify) notifications_sent_.add();
      break;
    case fabric::OperationKind::kRead:
      reads_.add();
      bytes_read_.add(operation.destination.size);
      break;
    case fabric::OperationKind::kNotify:
      notifications_sent_.add();
      break;
    case fabric::OperationKind::kMessage:
      (operation.source.size > 0 ? messages_sent_ : notifications_sent_).add();
      break;
    case fabric::OperationKind::kFlush:
    case fabric::OperationKind::kRecord:
    case fabric::OperationKind::kEnd:
      break;
  }
}

Result<Alias> ChannelState::alias(const std::shared_ptr<RemoteRegionState>& source,
                                  std::uint64_t offset, std::uint64_t length) {
  constexpr std::string_view kOperation = "alias";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  if (source == nullptr || source->channel() != this) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation, peer_name_},
                         "the region was not opened through this channel",
                         "use a region from this channel's lookup() or open()");
  }
  const RegionDescriptor& descriptor = source->descriptor();
  if (descriptor.access != Access::kRead) {
    return Status::error(StatusCode::kPermissionDenied, {kOperation, peer_name_},
                         "the peer's region is for writing only",
                         "use memory that the peer allocated with Device::allocate()");
  }
  if (offset > descriptor.length || length > descriptor.length - offset) {
    return past_the_end(kOperation, peer_name_, offset, length, descriptor.length);
  }
  if (!source->reached()) {
    const core::Gate::Pass pass(gate_);
    if (!pass) return unusable(kOperation);
    FARWRITE_RETURN_IF_ERROR(reach(*source, kOperation));
  }
  if (source->window()->mapped == nullptr) {
    return Status::error(StatusCode::kUnsupported,
                         {kOperation, peer_name_, to_string(peer_.fabric)},
                         "this fabric cannot map the peer's memory", "read() the bytes instead");
  }
  aliases_.add();
  bytes_aliased_.add(length);
  return Alias(source, {source->window()->mapped + offset, length});
}

Result<Notification> ChannelState::wait_notification(std::chrono::nanoseconds timeout) {
  constexpr std::string_view kOperation = "wait for a notification";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  if (!pass) return unusable(kOperation);
  const core::Inside inside(this);
  auto taken = inbox_.take(*this, core::Deadline::after(timeout), device_->options().spin);
  hand_over_unsent();
  return taken;
}

// What this thread's polling could not send is the pollers' from here on.
void ChannelState::hand_over_unsent() {
  for (const auto& lane : lanes_) lane->hand_over_unsent();
}

Result<std::optional<Notification>> ChannelState::try_notification() {
  constexpr std::string_view kOperation = "take a notification";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  if (!pass) return unusable(kOperation);
  const core::Inside inside(this);
  const Status ended = this->ended();
  std::optional<Notification> next = inbox_.try_take();
  if (!next.has_value()) {
    poll_lanes(&next);
    if (!next.has_value()) next = inbox_.try_take();
  }
  hand_over_unsent();
  if (!next.has_value() && !ended.ok()) return ended;
  return next;
}

Result<int> ChannelState::notification_descriptor() {
  constexpr std::string_view kOperation = "make a descriptor for notifications";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  if (!pass) return unusable(kOperation);
  return inbox_.descriptor();
}

Result<bool> ChannelState::arm_notifications() {
  constexpr std::string_view kOperation = "wait for a notification";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  if (!pass) return unusable(kOperation);
  const core::Inside inside(this);
  return inbox_.arm(*this);
}

void ChannelState::disarm_notifications() {
  if (!device_->fork_guard().check("poll for notifications").ok()) return;
  const core::Gate::Pass pass(gate_);
  if (!pass) return;
  for (std::uint32_t lane = 0; lane < peer_.lanes; ++lane) link_.get()->lane(lane).disarm();
}

Status ChannelState::on_notification(std::function<void(Notification)> handler,
                                     std::chrono::nanoseconds timeout) {
  constexpr std::string_view kOperation = "set a notification handler";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  if (!pass) return unusable(kOperation);
  const core::Inside inside(this);
  FARWRITE_RETURN_IF_ERROR(inbox_.set_handler(std::move(handler), core::Deadline::after(timeout)));
  for (const auto& lane : lanes_) lane->poller().kick();
  return Status();
}

std::uint64_t ChannelState::max_message_bytes() const { return capabilities_.max_message_bytes; }

void ChannelState::poll_lanes(std::optional<Notification>* taken) {
  if (inbox_.has_handler()) return;  // the pollers do
  const bool over = peer_over();
  for (std::uint32_t lane = 0; lane < peer_.lanes; ++lane) {
    // A thread that spins finds nothing most of the time. At the end every lane is polled, because
    // only that says that it is drained.
    if (!over && !link_.get()->lane(lane).worth_polling()) continue;
    fabric::Progress progress;
    {
      const NotificationInbox::Delivery delivery(inbox_);
      Intake intake(*this, taken);
      // Whatever is left pending, post() has told the poller already.
      progress = link_.get()->lane(lane).poll(intake);
    }
    lanes_[lane]->polled_by_user(progress);
    if (over) [[unlikely]]
      (void)lanes_[lane]->is_drained(progress);
  }
}

bool ChannelState::arm_lanes(std::vector<pollfd>& doorbells) {
  bool quiet = true;
  for (std::uint32_t lane = 0; lane < peer_.lanes; ++lane) {
    const fabric::Doorbell doorbell = link_.get()->lane(lane).arm();
    if (doorbell.ready || doorbell.holds) quiet = false;  // our queue is empty, so there is room
    if (doorbell.fd >= 0) doorbells.push_back({doorbell.fd, doorbell.events, 0});
  }
  return quiet;
}

Status ChannelState::ended() const {
  // A poller may still be handing over what had arrived before the peer went.
  if (life_.closing() || (peer_over() && life_.drained())) {
    return unusable("wait for a notification");
  }
  return Status();
}

fabric::Progress ChannelState::serve_lane(std::uint32_t lane) {
  const core::Inside inside(this);
  const NotificationInbox::Delivery delivery(inbox_);
  if (life_.closing()) {
    Discard discard;
    return link_.get()->lane(lane).poll(discard);
  }
  Intake intake(*this);
  return link_.get()->lane(lane).poll(intake);
}

void ChannelState::drive_ended() {
  for (const auto& lane : lanes_) lane->poller().kick();
}

}  // namespace farwrite::device
