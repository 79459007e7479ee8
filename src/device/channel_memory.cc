// A channel's memory: what the peer may write here, and what we open of the peer's.
#include <algorithm>
#include <string>
#include <utility>

#include "core/interrupt.h"
#include "device/channel_state.h"
#include "device/device_state.h"

namespace farwrite::device {
namespace {

std::string hex(const DeviceUuid& uuid) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : uuid) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace

memory::ArenaOptions ChannelState::landing_options() const {
  const DeviceOptions& options = device_->options();
  memory::ArenaOptions arena;
  arena.name = "receive memory for " + peer_name_;
  arena.limit_bytes = options.receive_limit_per_peer;
  arena.limit_option = "receive_limit_per_peer";
  arena.segment_bytes = options.receive_segment_bytes;
  arena.use = memory::SegmentUse::kLanding;
  arena.huge_pages = to_memory(options.huge_pages);
  arena.prefault = options.prefault;
  arena.numa = device_->placement();
  arena.quota = device_->receive_quota();
  arena.on_segment = [device = device_.get()](const std::shared_ptr<memory::Segment>&) {
    device->count_registration();
    return Status();
  };
  return arena;
}

Result<std::shared_ptr<RegionState>> ChannelState::allocate(std::uint64_t bytes, MemoryKind kind) {
  constexpr std::string_view kOperation = "allocate";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  FARWRITE_RETURN_IF_ERROR(unusable(kOperation));
  if (kind.on_gpu() && !capabilities_.gpu_landing) {
    return Status::error(StatusCode::kUnsupported,
                         {kOperation, peer_name_, to_string(peer_.fabric)},
                         "this fabric does not write into the memory of a GPU",
                         "allocate host memory, and copy from it to the GPU");
  }
  return landing_.allocate(landing_options(), kind,
                           device_->new_descriptor(Access::kWrite, 0, bytes), peer_.fabric,
                           device_->regions(), {shared_from_this(), &landing_});
}

Status ChannelState::publish(std::string_view name, PublishedRegion published) {
  constexpr std::string_view kOperation = "publish";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  FARWRITE_RETURN_IF_ERROR(unusable(kOperation));
  FARWRITE_RETURN_IF_ERROR(device_->check_publishable(published, &landing_));
  FARWRITE_RETURN_IF_ERROR(peer_requests_.names().publish(name, std::move(published)));
  device_->post([self = shared_from_this()] { self->answer_parked_lookups(); });
  return Status();
}

Result<std::shared_ptr<RemoteRegionState>> ChannelState::lookup(std::string_view name,
                                                                std::chrono::nanoseconds timeout) {
  constexpr std::string_view kOperation = "look a name up";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  FARWRITE_RETURN_IF_ERROR(check_name(kOperation, name));
  const core::Gate::Pass pass(gate_);
  const core::Inside inside(this);
  const core::Deadline deadline = core::Deadline::after(timeout);
  auto reply = requests_.lookup(name, deadline);
  if (!reply.ok()) return reply.status();
  return adopt(*reply, deadline);
}

Result<std::shared_ptr<RemoteRegionState>> ChannelState::open(const RegionDescriptor& descriptor,
                                                              std::chrono::nanoseconds timeout) {
  constexpr std::string_view kOperation = "open memory";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  const core::Inside inside(this);
  if (descriptor.device_uuid != peer_.uuid) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation, peer_name_},
                         "the descriptor belongs to device " + hex(descriptor.device_uuid) +
                             ", and this channel's peer is " + hex(peer_.uuid),
                         "open it through a channel to that device");
  }
  if (descriptor.epoch != peer_.epoch) {
    const bool older = descriptor.epoch < peer_.epoch;
    return Status::error(older ? StatusCode::kPeerRestarted : StatusCode::kFailedPrecondition,
                         {kOperation, peer_name_},
                         older ? "peer restarted: the descriptor is from before its last start"
                               : "the descriptor is from a later start than this channel's peer",
                         older ? "ask the peer for a fresh descriptor" : "connect again");
  }
  const std::vector<std::byte> encoded = descriptor.to_bytes();
  if (const Status bad = RegionDescriptor::from_bytes({encoded.data(), encoded.size()}).status();
      !bad.ok()) {
    // The peer would end the channel over it.
    return Status::error(StatusCode::kInvalidArgument, {kOperation, peer_name_},
                         "the descriptor is malformed: " + bad.message(),
                         "pass the peer's descriptor unchanged");
  }
  const core::Deadline deadline = core::Deadline::after(timeout);
  auto reply = requests_.open(descriptor, deadline);
  if (!reply.ok()) return reply.status();
  return adopt(*reply, deadline);
}

Result<std::shared_ptr<fabric::RemoteWindow>> ChannelState::import(
    const RegionDescriptor& descriptor, core::Deadline deadline) {
  while (true) {
    // The caller's pass through gate_ keeps the link. What is mapped already is reached even after
    // the peer's end.
    auto window =
        link_.get()->import(descriptor, deadline.earlier(core::Deadline::after(kFabricTurn)));
    const bool again = !window.ok() && !deadline.expired() && !core::Interrupt::raised() &&
                       window.status().code() == StatusCode::kDeadlineExceeded;
    if (!again) return window;
    FARWRITE_RETURN_IF_ERROR(unusable("open memory"));
  }
}

Result<std::shared_ptr<RemoteRegionState>> ChannelState::adopt(const ReplyMessage& reply,
                                                               core::Deadline deadline) {
  if (!reply.status.ok()) {
    return Status(reply.status.code(), peer_name_ + " answers: " + reply.status.message());
  }
  if (reply.descriptor.gpu.has_value() && find_key(reply.descriptor, peer_.fabric) == 0) {
    if (reply.lease != 0) release_remote(reply.lease);
    return Status::error(StatusCode::kUnsupported,
                         {"open memory", peer_name_, to_string(peer_.fabric)},
                         "it lies on a GPU of the peer, which this fabric does not reach",
                         "let the peer publish host memory, and copy to it from the GPU");
  }
  auto window = import(reply.descriptor, deadline);
  if (!window.ok()) {
    if (reply.lease != 0) release_remote(reply.lease);
    return window.status();
  }
  return std::make_shared<RemoteRegionState>(shared_from_this(), reply.descriptor,
                                             reply.description, reply.lease, *std::move(window));
}

}  // namespace farwrite::device
