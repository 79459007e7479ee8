// A channel's data plane: operations, notifications, aliases.
#include <algorithm>
#include <string>
#include <utility>

#include "core/channel_end.h"
#include "core/trace.h"
#include "device/channel_state.h"
#include "device/device_state.h"
#include "device/operation_trace.h"
#include "gpu/cuda_driver.h"

namespace farwrite::device {
namespace {

Status past_the_end(std::string_view operation, const std::string& peer, std::uint64_t offset,
                    std::uint64_t bytes, std::uint64_t size) {
  return Status::error(StatusCode::kOutOfRange, {operation, peer},
                       "offset " + std::to_string(offset) + " + " + std::to_string(bytes) +
                           " bytes ends past the " + std::to_string(size) +
                           " bytes of the peer's memory",
                       "stay inside it");
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
      if (Status bad = reach(*remote, name_of(operation), core::Deadline::never()); !bad.ok()) {
        return Completion(std::move(bad));
      }
    }
    // Where nothing goes on after post(), the caller's handle keeps the window, and a reference
    // without a count saves two atomic operations.
    const std::shared_ptr<fabric::RemoteWindow>& window = remote->window();
    operation.window = capabilities_.ends_in_post ? std::shared_ptr<fabric::RemoteWindow>(
                                                        std::shared_ptr<void>(), window.get())
                                                  : window;
    if (gpu::CudaDriver::opened() != nullptr) [[unlikely]] {
      if (Status bad = find_gpu(operation); !bad.ok()) return Completion(std::move(bad));
    }
  }
  const core::Inside inside(this);
  const bool staged = operation.gpu != nullptr && !capabilities_.gpu_copies;
  Completion completion = staged ? post_staged(lane, operation) : operations_.post(lane, operation);
  if (!completion.done()) {
    completion.state()->belongs_to(this, name_of(operation), peer_name_);
  } else if (Status ended = completion.wait(); !ended.ok()) [[unlikely]] {
    return Completion(core::end_of(name_of(operation), std::move(ended)));
  }
  operations_.counts().count(operation);
  if (posted != 0) [[unlikely]] {
    trace_operation({name_of(operation), posted, operation.bytes(), lane, operation.tag},
                    peer_name_, peer_.fabric, completion);
  }
  return completion;
}

bool ChannelState::write_small(RemoteRegionState* remote, std::uint64_t offset, ByteView source,
                               std::uint32_t tag, std::uint32_t lane) {
  if (source.size > fabric::Lane::kSmallBytes || !capabilities_.maps_peer_memory) return false;
  const core::Gate::Pass pass(gate_);
  if (!pass || device_->fork_guard().in_forked_child() || lane >= peer_.lanes) return false;
  if (life_.peer_over() || core::trace_on()) return false;
  if (remote == nullptr || remote->channel().get() != this || !remote->reached()) return false;
  const RegionDescriptor& descriptor = remote->descriptor();
  if (descriptor.access != Access::kWrite || offset > descriptor.length) return false;
  if (source.size > descriptor.length - offset || gpu::CudaDriver::opened() != nullptr)
    return false;
  if (!link_.get()->lane(lane).write_small(*remote->window(), offset, source, tag)) return false;
  operations_.counts().count_notified_write(source.size);
  return true;
}

Status ChannelState::tell(ByteView message, std::uint32_t tag, std::uint32_t lane) {
  fabric::Operation told;
  told.kind = fabric::OperationKind::kMessage;
  told.source = message;
  told.tag = tag;
  told.accepted = true;
  const Completion sent = post(nullptr, lane, std::move(told));
  if (!sent.done()) return Status();
  Status status = sent.wait();
  // The fabric itself reports the cause of any other error. The control loop ends the channel,
  // because the end calls the program's callbacks, and this caller may hold locks.
  if (status.code() == StatusCode::kResourceExhausted) {
    device_->post([weak = weak_from_this(), status] {
      if (const auto self = weak.lock()) self->refuse_message(status);
    });
  }
  return status;
}

bool ChannelState::may_still_read(const RemoteRegionState* remote,
                                  const fabric::Operation& operation) const {
  return operation.kind == fabric::OperationKind::kRead && remote->leased() && life_.peer_lingers();
}

std::shared_ptr<ChannelExtension> ChannelState::extension(
    const std::function<std::shared_ptr<ChannelExtension>()>& make) {
  std::call_once(extension_made_, [&] {
    extension_ = make();
    extended_.store(true);
  });
  return extension_;
}

void ChannelState::run_later(std::chrono::nanoseconds delay, std::function<void()> function) {
  device_->run_later(delay, std::move(function));
}

std::uint64_t ChannelState::registrations() const { return device_->stats().registrations; }

std::uint64_t ChannelState::send_limit() const { return device_->options().send_limit_per_peer; }

Status ChannelState::reach(RemoteRegionState& remote, std::string_view operation,
                           core::Deadline deadline) {
  const core::Inside inside(this);  // the caller holds the gate, for which a close() would wait
  if (device_->on_own_thread()) {
    // The answer may need this very thread.
    if (remote.reach(core::Deadline::after({})).ok()) return Status();
    return Status::error(StatusCode::kFailedPrecondition, {operation, peer_name_},
                         "lent memory was mapped for the first time inside a callback",
                         "map it from another thread");
  }
  // A silent peer may come back; a channel that ends, ends the wait.
  return remote.reach(deadline);
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
                             ", or write the bytes into memory of the peer");
  }
  if (remote == nullptr || remote->channel().get() != this) [[unlikely]] {
    return Status::error(StatusCode::kInvalidArgument, {name_of(operation), peer_name_},
                         remote == nullptr ? "the handle is empty"
                                           : "the peer's memory was opened through another channel",
                         "use what this channel's lookup() or open() returns");
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
        writes ? "the peer's memory is for reading only" : "the peer's memory is for writing only",
        writes ? "use memory that the peer allocated with its channel's allocate()"
               : "use memory that the peer allocated with its device's allocate()");
  }
  // Piece by piece: the sum of a head and a huge source wraps around.
  const std::uint64_t head = operation.head.size;
  const std::uint64_t behind_head = operation.bytes() - head;
  const std::uint64_t room = descriptor.length - std::min(operation.offset, descriptor.length);
  if (operation.offset > descriptor.length || head > room || behind_head > room - head)
      [[unlikely]] {
    return past_the_end(name_of(operation), peer_name_, operation.offset,
                        std::max(operation.bytes(), behind_head), descriptor.length);
  }
  return Status();
}

Result<Alias> ChannelState::alias(const std::shared_ptr<RemoteRegionState>& source,
                                  std::uint64_t offset, std::uint64_t length,
                                  core::Deadline deadline) {
  constexpr std::string_view kOperation = "alias";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  if (source == nullptr || source->channel().get() != this) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation, peer_name_},
                         "the peer's memory was not opened through this channel",
                         "use what this channel's lookup() or open() returns");
  }
  const RegionDescriptor& descriptor = source->descriptor();
  if (descriptor.access != Access::kRead) {
    return Status::error(StatusCode::kPermissionDenied, {kOperation, peer_name_},
                         "the peer's memory is for writing only",
                         "use memory that the peer allocated with its device's allocate()");
  }
  if (offset > descriptor.length || length > descriptor.length - offset) {
    return past_the_end(kOperation, peer_name_, offset, length, descriptor.length);
  }
  if (!source->reached()) {
    const core::Gate::Pass pass(gate_);
    if (!pass) return unusable(kOperation);
    FARWRITE_RETURN_IF_ERROR(reach(*source, kOperation, deadline));
  }
  if (!source->begin_alias()) return unusable(kOperation);
  if (source->window()->mapped == nullptr) {
    return Status::error(StatusCode::kUnsupported,
                         {kOperation, peer_name_, to_string(peer_.fabric)},
                         "this fabric cannot map the peer's memory", "read() the bytes instead");
  }
  operations_.counts().count_alias(length);
  return Alias(source, {source->window()->mapped + offset, length});
}

void ChannelState::drive(const std::function<void()>& post, const std::function<bool()>& over,
                         const std::function<void(Notification)>& take, core::Deadline deadline) {
  if (device_->fork_guard().in_forked_child()) return post();
  const core::Gate::Pass pass(gate_);
  if (!pass) return post();
  const core::Inside inside(this);
  lanes_.drive(post, over, take, deadline, device_->options().spin);
}

void ChannelState::wake_drivers() {
  if (!device_->fork_guard().in_forked_child()) inbox_.wake_drivers();
}

void ChannelState::take_returns(bool take) {
  const core::Gate::Pass pass(gate_);
  if (pass) lanes_.take_returns(take);
}

void ChannelState::take_waiting_returns() {
  const core::Gate::Pass pass(gate_);
  if (pass) lanes_.take_waiting_returns();
}

bool ChannelState::take_bare(bool waits, std::uint32_t& tag) {
  if (device_->fork_guard().in_forked_child()) return false;
  return lanes_.take_bare(gate_, waits && device_->options().spin.count() > 0, tag);
}

Result<Notification> ChannelState::wait_notification(std::chrono::nanoseconds timeout) {
  constexpr std::string_view kOperation = "wait for a notification";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  if (!pass) return unusable(kOperation);
  const core::Inside inside(this);
  auto taken = inbox_.take(lanes_, core::Deadline::after(timeout), device_->options().spin);
  lanes_.hand_over_rest();
  return taken;
}

Result<std::optional<Notification>> ChannelState::try_notification() {
  constexpr std::string_view kOperation = "take a notification";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  if (!pass) return unusable(kOperation);
  const core::Inside inside(this);
  const Status ended = lanes_.ended();
  std::optional<Notification> next = inbox_.try_take();
  if (!next.has_value()) {
    lanes_.poll_lanes(&next);
    if (!next.has_value()) next = inbox_.try_take();
  }
  lanes_.hand_over_rest();
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
  return inbox_.arm(lanes_);
}

void ChannelState::disarm_notifications() {
  if (!device_->fork_guard().check("poll for notifications").ok()) return;
  const core::Gate::Pass pass(gate_);
  if (!pass) return;
  lanes_.disarm();
}

Status ChannelState::on_notification(std::function<void(Notification)> handler,
                                     std::chrono::nanoseconds timeout) {
  constexpr std::string_view kOperation = "set a notification handler";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  if (!pass) return unusable(kOperation);
  const core::Inside inside(this);
  FARWRITE_RETURN_IF_ERROR(inbox_.set_handler(std::move(handler), core::Deadline::after(timeout)));
  lanes_.kick();
  return Status();
}

std::uint64_t ChannelState::max_message_bytes() const { return capabilities_.max_message_bytes; }

}  // namespace farwrite::device
