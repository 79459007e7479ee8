#include "peer.h"

#include <string_view>

#include "clock.h"
#include "farwrite/copy.h"
#include "stamps.h"

namespace farwrite::bench {
namespace {

constexpr std::chrono::seconds kConnectTimeout{20};
constexpr std::string_view kPoolName = "bench.pool";
constexpr std::string_view kEchoName = "bench.echo";

Status invalid(std::string_view cause, std::string_view remedy) {
  return Status::error(StatusCode::kInvalidArgument, {.operation = "bench p2p"}, cause, remedy);
}

Status check(const Phase& phase, const PeerOptions& options) {
  const SlotMap map(phase, options.pool_bytes, options.pool_bytes / 2);
  if (phase.size == 0 || phase.size % 8 != 0) {
    return invalid("a size of " + std::to_string(phase.size) + " bytes", "use a multiple of 8");
  }
  if (phase.lanes == 0 || phase.lanes > options.lanes || phase.window == 0) {
    return invalid("lanes or window are 0, or there are more lanes than the device has",
                   "use --lanes 1 to 16 and --window 1 or more");
  }
  if (phase.transfers % phase.lanes != 0) {
    return invalid("the transfers are not a multiple of the lanes", "use a multiple");
  }
  if (map.side_slots < phase.lanes || map.slots < std::uint64_t{phase.window} * phase.lanes) {
    return invalid(std::to_string(phase.lanes) + " lanes x window " + std::to_string(phase.window) +
                       " x " + std::to_string(phase.size) + " bytes exceed the pool",
                   "use smaller values, or a larger --pool");
  }
  if (phase.kind == Kind::kLatency && phase.transfers > kMaxOneWaySamples && times_one_way(phase)) {
    return invalid("more than 4096 single transfers", "use fewer");
  }
  return Status();
}

}  // namespace

Result<std::unique_ptr<Peer>> Peer::open(const PeerOptions& options) {
  if (options.lanes == 0 || options.lanes > kMaxLanes) {
    return invalid(std::to_string(options.lanes) + " lanes", "use --lanes 1 to 16");
  }
  std::unique_ptr<Peer> peer(new Peer(options));
  auto stage = Stage::map(options.stage_fd, options.pool_bytes);
  if (!stage.ok()) return stage.status();
  peer->stage_ = std::move(stage).value();

  DeviceOptions device_options;
  device_options.fabrics = {options.fabric};
  device_options.lanes = options.lanes;
  device_options.spin = options.spin;
  auto device = Device::open(device_options);
  if (!device.ok()) return device.status();
  peer->device_ = std::move(device).value();
  return peer;
}

Peer::~Peer() {
  if (device_.valid()) static_cast<void>(close());
}

Result<FirstUse> Peer::prepare(const Endpoint& peer, std::vector<int> raw_sockets) {
  raw_sockets_ = std::move(raw_sockets);
  auto channel = options_.role == Role::kReceiver ? device_.accept(kConnectTimeout)
                                                  : device_.connect(peer, kConnectTimeout);
  if (!channel.ok()) return channel.status();
  channel_ = std::move(channel).value();
  // Before the clock starts, because the choice of the copy kernel is a separate start-up cost.
  probe_copy_kernels();

  FirstUse first;
  Clock::time_point start = Clock::now();
  FARWRITE_RETURN_IF_ERROR(allocate());
  first.allocate_seconds = seconds_since(start);
  FARWRITE_RETURN_IF_ERROR(publish());
  FARWRITE_RETURN_IF_ERROR(stage_->meet());
  start = Clock::now();
  FARWRITE_RETURN_IF_ERROR(look_up());
  first.open_seconds = seconds_since(start);
  first.registrations = device_.stats().registrations;

  if (options_.role == Role::kSender) {
    if (pool() != nullptr) fill_ramp(pool(), options_.pool_bytes, 0);
    if (side() != nullptr) fill_ramp(side(), side_bytes(), 0);
    // The raw loops read these bytes in place, or copy them.
    fill_ramp(stage_->pool(), options_.pool_bytes, 0);
  } else if (echo() != nullptr) {
    fill_ramp(echo(), kEchoBytes, 0);
  }
  FARWRITE_RETURN_IF_ERROR(stage_->meet());
  return first;
}

Status Peer::allocate() {
  const auto keep = [](Result<MemoryRegion> region, MemoryRegion& where) {
    if (!region.ok()) return region.status();
    where = std::move(region).value();
    return Status();
  };
  const bool sender = options_.role == Role::kSender;
  switch (options_.op) {
    case Op::kWrite:
      if (sender) {
        FARWRITE_RETURN_IF_ERROR(keep(device_.allocate(side_bytes()), side_));
        return keep(channel_.allocate(kEchoBytes), echo_);
      }
      FARWRITE_RETURN_IF_ERROR(keep(channel_.allocate(options_.pool_bytes), pool_));
      return keep(device_.allocate(kEchoBytes), echo_);
    case Op::kRead:
      return sender ? keep(device_.allocate(options_.pool_bytes), pool_)
                    : keep(device_.allocate(side_bytes()), side_);
    case Op::kAlias:
      return sender ? keep(device_.allocate(options_.pool_bytes), pool_) : Status();
    case Op::kNotify:
      return Status();
  }
  return Status();
}

Status Peer::publish() {
  const bool sender = options_.role == Role::kSender;
  if (options_.op == Op::kWrite) {
    return sender ? channel_.publish(kEchoName, echo_) : channel_.publish(kPoolName, pool_);
  }
  if (sender && pool_.valid()) return device_.publish(kPoolName, pool_);
  return Status();
}

Status Peer::look_up() {
  const bool sender = options_.role == Role::kSender;
  const bool wants_pool =
      options_.op == Op::kNotify ? false : sender == (options_.op == Op::kWrite);
  if (wants_pool) {
    auto region = channel_.lookup(kPoolName);
    if (!region.ok()) return region.status();
    remote_pool_ = std::move(region).value();
  }
  if (options_.op == Op::kWrite && !sender) {
    auto region = channel_.lookup(kEchoName);
    if (!region.ok()) return region.status();
    remote_echo_ = std::move(region).value();
  }
  return Status();
}

Result<Outcome> Peer::run_phase(const Phase& phase) {
  FARWRITE_RETURN_IF_ERROR(check(phase, options_));
  auto outcome =
      options_.role == Role::kSender ? run_sender(*this, phase) : run_receiver(*this, phase);
  if (!outcome.ok()) stage_->give_up();
  return outcome;
}

Status Peer::close() {
  // Leases first, because a region that a peer still reads cannot be reused.
  remote_pool_ = {};
  remote_echo_ = {};
  const Status status = channel_.valid() ? channel_.close() : Status();
  pool_ = {};
  side_ = {};
  echo_ = {};
  channel_ = {};
  const Status device_status = device_.close();
  device_ = {};
  return status.ok() ? device_status : status;
}

}  // namespace farwrite::bench
