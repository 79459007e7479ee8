// The public handles: each call goes to the state behind it.
#include <utility>

#include "device/channel.h"
#include "device/channel_state.h"
#include "device/device.h"
#include "device/device_state.h"

namespace farwrite {

std::byte* MemoryRegion::data() const { return state_->data(); }
std::size_t MemoryRegion::size() const { return state_->bytes(); }
MemoryKind MemoryRegion::kind() const { return state_->kind(); }
Access MemoryRegion::access() const { return state_->descriptor().access; }
RegionDescriptor MemoryRegion::descriptor() const { return state_->descriptor(); }
Status MemoryRegion::close(std::chrono::nanoseconds timeout) { return state_->close(timeout); }

std::size_t RemoteRegion::size() const { return state_->descriptor().length; }
MemoryKind RemoteRegion::kind() const { return state_->kind(); }
MemoryKind Alias::kind() const { return state_ == nullptr ? MemoryKind() : state_->kind(); }
Access RemoteRegion::access() const { return state_->descriptor().access; }
const RegionDescriptor& RemoteRegion::descriptor() const { return state_->descriptor(); }
const std::string& RemoteRegion::description() const { return state_->description(); }
// Where it was opened or lent.
Channel channel_of(const RemoteRegion& region) { return Channel(region.state_->channel()); }
bool RemoteRegion::reached() const { return state_->reached(); }

namespace {

fabric::Operation operation(fabric::OperationKind kind) {
  fabric::Operation operation;
  operation.kind = kind;
  return operation;
}

template <typename Handle, typename State>
Result<Handle> wrap(Result<std::shared_ptr<State>> state) {
  if (!state.ok()) return state.status();
  return Handle(*std::move(state));
}

}  // namespace

Completion Channel::write(ByteView source, const RemoteRegion& target, std::uint64_t offset,
                          std::uint32_t lane) {
  fabric::Operation write = operation(fabric::OperationKind::kWrite);
  write.source = source;
  write.offset = offset;
  return state_->post(target.state_.get(), lane, std::move(write));
}

Completion Channel::read(MutableByteView destination, const RemoteRegion& source,
                         std::uint64_t offset, std::uint32_t lane) {
  fabric::Operation read = operation(fabric::OperationKind::kRead);
  read.destination = destination;
  read.offset = offset;
  return state_->post(source.state_.get(), lane, std::move(read));
}

Completion Channel::write_with_notify(ByteView source, const RemoteRegion& target,
                                      std::uint64_t offset, std::uint32_t tag, std::uint32_t lane) {
  return write_with_notify({}, source, target, offset, tag, lane);
}

bool Channel::write_small(ByteView source, const RemoteRegion& target, std::uint64_t offset,
                          std::uint32_t tag, std::uint32_t lane) {
  return state_->write_small(target.state_.get(), offset, source, tag, lane);
}

Completion Channel::post_notified(ByteView head, ByteView source, const RemoteRegion& target,
                                  std::uint64_t offset, std::uint32_t tag, std::uint32_t lane) {
  fabric::Operation write = operation(fabric::OperationKind::kWrite);
  write.head = head;
  write.source = source;
  write.offset = offset;
  write.notify = true;
  write.tag = tag;
  return state_->post(target.state_.get(), lane, std::move(write));
}

bool Channel::maps_peer_memory() const { return state_->maps_peer_memory(); }
bool Channel::reads_in_order() const { return state_->reads_in_order(); }

Completion Channel::flush() {
  return state_->post(nullptr, 0, operation(fabric::OperationKind::kFlush));
}

Result<Alias> Channel::alias(const RemoteRegion& source, std::uint64_t offset, std::uint64_t length,
                             std::chrono::nanoseconds timeout) {
  return state_->alias(source.state_, offset, length, core::Deadline::after(timeout));
}

Status Channel::memcpy(void* local, const RemoteRegion& remote, std::uint64_t offset,
                       std::uint64_t bytes, Direction direction, std::chrono::nanoseconds timeout) {
  if (direction == Direction::kFromRemote) {
    return read({local, bytes}, remote, offset).wait(timeout);
  }
  FARWRITE_RETURN_IF_ERROR(write({local, bytes}, remote, offset).wait(timeout));
  return flush().wait(timeout);
}

Completion Channel::notify(std::uint32_t tag, std::uint32_t lane) {
  fabric::Operation notify = operation(fabric::OperationKind::kNotify);
  notify.tag = tag;
  return state_->post(nullptr, lane, std::move(notify));
}

Completion Channel::send(ByteView message, std::uint32_t tag, std::uint32_t lane) {
  fabric::Operation send = operation(fabric::OperationKind::kMessage);
  send.source = message;
  send.tag = tag;
  return state_->post(nullptr, lane, std::move(send));
}

Status Channel::tell(ByteView message, std::uint32_t tag, std::uint32_t lane) {
  return state_->tell(message, tag, lane);
}

Completion Channel::lend(ByteView message, ByteView memory, std::function<void()> returned,
                         std::uint32_t tag, std::uint32_t lane) {
  return state_->lend(message, memory, std::move(returned), tag, lane);
}

std::uint64_t Channel::max_message_bytes() const { return state_->max_message_bytes(); }

void Channel::drive(const std::function<void()>& post, const std::function<bool()>& over,
                    const std::function<void(Notification)>& take, core::Deadline deadline) {
  state_->drive(post, over, take, deadline);
}

void Channel::take_returns(bool take) { state_->take_returns(take); }

void Channel::take_waiting_returns() { state_->take_waiting_returns(); }

void Channel::wake_drivers() { state_->wake_drivers(); }

void Channel::run_later(std::chrono::nanoseconds delay, std::function<void()> function) {
  state_->run_later(delay, std::move(function));
}

bool Channel::take_bare(bool waits, std::uint32_t& tag) { return state_->take_bare(waits, tag); }

Result<Notification> Channel::await_notification(std::chrono::nanoseconds timeout) {
  return state_->wait_notification(timeout);
}

Result<std::optional<Notification>> Channel::look_for_notification() {
  return state_->try_notification();
}

Result<int> Channel::notification_descriptor() { return state_->notification_descriptor(); }

Result<bool> Channel::arm_notifications() { return state_->arm_notifications(); }

void Channel::disarm_notifications() { state_->disarm_notifications(); }

Status Channel::on_notification(std::function<void(Notification)> handler,
                                std::chrono::nanoseconds timeout) {
  return state_->on_notification(std::move(handler), timeout);
}

Status Channel::on_end(std::function<void(bool good_order, const Status& reason)> handler) {
  return state_->on_end(std::move(handler));
}

Result<MemoryRegion> Channel::allocate(std::uint64_t bytes, MemoryKind kind) {
  return wrap<MemoryRegion>(state_->allocate(bytes, kind));
}

Status Channel::publish(std::string_view name, const MemoryRegion& region,
                        std::string_view description) {
  return state_->publish(name, {region.state_, std::string(description)});
}

Result<RemoteRegion> Channel::lookup(std::string_view name, std::chrono::nanoseconds timeout) {
  return wrap<RemoteRegion>(state_->lookup(name, timeout));
}

Result<RemoteRegion> Channel::open(const RegionDescriptor& descriptor,
                                   std::chrono::nanoseconds timeout) {
  return wrap<RemoteRegion>(state_->open(descriptor, timeout));
}

bool Channel::claim_notifications() { return state_->claim_notifications(); }
void Channel::release_notifications() { state_->release_notifications(); }
bool Channel::notifications_claimed() const { return state_->notifications_claimed(); }

const PeerInfo& Channel::peer() const { return state_->peer(); }
const std::string& Channel::peer_name() const { return state_->peer_name(); }
PeerState Channel::peer_state() const { return state_->peer_state(); }
ChannelStats Channel::stats() const { return state_->stats(); }
Status Channel::close(std::chrono::nanoseconds timeout) { return state_->close(timeout); }

Result<Device> Device::open(const DeviceOptions& options) {
  auto state = device::DeviceState::open(options);
  if (!state.ok()) return state.status();
  return Device((*state)->user_handle());
}

Endpoint Device::endpoint() const { return state_->endpoint(); }
DeviceUuid Device::uuid() const { return state_->uuid(); }
std::uint64_t Device::epoch() const { return state_->epoch(); }

Result<Channel> Device::connect(const Endpoint& peer, std::chrono::nanoseconds timeout) {
  auto channel = state_->connect(peer, timeout);
  if (!channel.ok()) return channel.status();
  return Channel((*channel)->user_handle());
}

Result<Channel> Device::accept(std::chrono::nanoseconds timeout) {
  auto channel = state_->accept(timeout);
  if (!channel.ok()) return channel.status();
  return Channel((*channel)->user_handle());
}

Result<MemoryRegion> Device::allocate(std::uint64_t bytes, MemoryKind kind) {
  return wrap<MemoryRegion>(state_->allocate(bytes, kind));
}

std::byte* Device::allocate_raw(std::uint64_t bytes) {
  const Result<std::byte*> memory = state_->allocate_raw(bytes);
  return memory.ok() ? memory.value() : nullptr;
}

Result<std::byte*> Device::try_allocate_raw(std::uint64_t bytes) {
  return state_->allocate_raw(bytes);
}
void Device::free_raw(std::byte* memory) { state_->free_raw(memory); }
Result<std::shared_ptr<std::byte>> Device::allocate_owned(std::uint64_t bytes) {
  return state_->allocate_owned(bytes);
}
bool Device::contains(const void* pointer) const { return state_->contains(pointer); }
bool Device::contains(ByteView memory) const { return state_->contains(memory); }

Result<MemoryRegistration> Device::register_memory(MutableByteView memory) {
  return state_->register_memory(memory, true);
}
Result<MemoryRegistration> Device::register_memory(ByteView memory) {
  return state_->register_memory(memory, false);
}
Status Device::publish(std::string_view name, const MemoryRegion& region,
                       std::string_view description) {
  return state_->publish(name, {region.state_, std::string(description)});
}

Status Device::unpublish(std::string_view name) { return state_->unpublish(name); }
DeviceStats Device::stats() const { return state_->stats(); }
std::string Device::metrics_text() const { return state_->metrics_text(); }
Status Device::close(std::chrono::nanoseconds timeout) { return state_->close(timeout); }

}  // namespace farwrite
