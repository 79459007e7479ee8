#include "device/device_state.h"

#include <algorithm>
#include <utility>

#include "core/inside.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/option_table.h"
#include "core/tls_library.h"
#include "core/trace.h"
#include "device/fabrics.h"
#include "device/identity.h"
#include "device/placement.h"
#include "gpu/gpu_counters.h"
#include "memory/copy.h"
#include "memory/forked_readers.h"

namespace farwrite::device {
namespace {

// Bytes. A shorter token cannot have the 128 random bits that docs/explanation/contract.md asks
// for.
constexpr std::size_t kGuessedToken = 16;

}  // namespace

Status check_options(const DeviceOptions& options) {
  const auto bad = [](std::string_view cause, std::string_view remedy) {
    return Status::error(StatusCode::kInvalidArgument, {"open a device"}, cause, remedy);
  };
  if (options.fabrics.empty()) return bad("no fabric is allowed", "name at least one: shm");
  for (const FabricKind kind : options.fabrics) {
    if (std::count(options.fabrics.begin(), options.fabrics.end(), kind) > 1) {
      return bad("the fabric " + std::string(to_string(kind)) + " is named twice",
                 "name every fabric once");
    }
  }
  FARWRITE_RETURN_IF_ERROR(core::check_ranges(options));
  if (options.token.kind() == Token::Kind::kSecret && options.token.secret().empty()) {
    return bad("the token is empty", "leave it out, or ask for none");
  }
  if (options.encrypt) return core::TlsLibrary::open().status();
  return Status();
}

memory::HugePages to_memory(HugePages pages) {
  switch (pages) {
    case HugePages::kOff:
      return memory::HugePages::kOff;
    case HugePages::kTransparent:
      return memory::HugePages::kTransparent;
    case HugePages::kExplicit:
      return memory::HugePages::kExplicit;
  }
  return memory::HugePages::kOff;
}

Result<std::shared_ptr<DeviceState>> DeviceState::open(const DeviceOptions& options,
                                                       std::string_view service) {
  FARWRITE_RETURN_IF_ERROR(check_options(options));
  FARWRITE_RETURN_IF_ERROR(core::check_log_variable());
  FARWRITE_RETURN_IF_ERROR(memory::check_copy_kernel_variable());
  core::start_trace_from_environment();
  std::shared_ptr<DeviceState> device(new DeviceState(options, service));
  const Status started = device->start();
  if (started.ok()) return device;
  (void)device->close(kForever);  // nothing runs yet; `started` is the error that counts
  return started;
}

DeviceState::DeviceState(const DeviceOptions& options, std::string_view service)
    : options_(options),
      receive_quota_(std::make_shared<memory::Quota>("receive_limit", options.receive_limit)),
      secrets_(Secrets::of(options.token)) {
  identity_.service = service;
}

DeviceState::~DeviceState() {
  if (!fork_guard_.in_forked_child()) return;
  // Threads exist only in the parent; what serves them is left alone.
  for (auto& poller : pollers_) (void)poller.release();
  for (auto& fabric : fabrics_) (void)fabric.release();
  (void)acceptor_.release();
  (void)loop_.release();
  meetings_.leave_to_parent();
}

Status DeviceState::start() {
  auto listener = core::listen_tcp(options_.listen, options_.port_range);
  if (!listener.ok()) return listener.status();
  listener_ = *std::move(listener);
  FARWRITE_RETURN_IF_ERROR(check_secrets());
  auto loop = core::EventLoop::start("farwrite-control", this);
  if (!loop.ok()) return loop.status();
  loop_ = *std::move(loop);
  auto fabrics = fabric::make_fabrics(*loop_, options_);
  if (!fabrics.ok()) return fabrics.status();
  fabrics_ = *std::move(fabrics);
  auto placement = choose_placement(options_.numa_node, fabrics_);
  if (!placement.ok()) return placement.status();
  placement_ = *placement;
  FARWRITE_RETURN_IF_ERROR(make_arena());
  for (std::uint32_t i = 0; i < options_.pollers; ++i) {
    auto poller = Poller::start(options_.spin, this);
    if (!poller.ok()) return poller.status();
    pollers_.push_back(*std::move(poller));
  }
  identity_.name = options_.name;
  identity_.endpoint = listener_.endpoint;
  identity_.uuid = uuid_of(listener_.endpoint);
  identity_.epoch = next_epoch();
  identity_.lanes = options_.lanes;
  identity_.encrypt = options_.encrypt;
  for (const auto& fabric : fabrics_) identity_.fabrics.push_back(fabric.get());

  const std::chrono::nanoseconds period = std::clamp<std::chrono::nanoseconds>(
      options_.detection_time / 4, std::chrono::milliseconds(5), std::chrono::seconds(1));
  last_tick_ = std::chrono::nanoseconds(core::now_ns());
  timer_ = loop_->every(period, [this, period] { tick(period); });
  auto acceptor = core::Acceptor::start(
      *loop_, listener_.socket.get(),
      [this](core::UniqueFd socket) { on_incoming(std::move(socket)); },
      [this](int socket) {
        handshakes_refused_.add();
        if (socket < 0) return;
        core::PlainView stream(socket);
        tell_why(stream, Status::error(StatusCode::kResourceExhausted, {"accept"},
                                       "no file descriptor left for the connection",
                                       "raise the limit of open files (ulimit -n)"));
      });
  if (!acceptor.ok()) return acceptor.status();
  acceptor_ = *std::move(acceptor);
  return Status();
}

Status DeviceState::check_secrets() const {
  const bool loopback = core::accepts_on_loopback(listener_.socket.get());
  const std::string opening = "open a device at " + listener_.endpoint.to_string();
  FARWRITE_RETURN_IF_ERROR(identity_at(loopback, opening).status());
  const Result<Secret>& elsewhere = secrets_.at(/*is_loopback=*/false);
  const std::size_t length = elsewhere.ok() ? elsewhere.value().token.size() : 0;
  if (!loopback && length > 0 && length < kGuessedToken) {
    core::log(core::LogLevel::kWarning,
              opening + ": the token has " + std::to_string(length) +
                  " bytes, and a program that sees a connection begin can test guesses of it; "
                  "use 16 random bytes or more, as `openssl rand -hex 32` makes");
  }
  if (!options_.encrypt || (elsewhere.ok() && !elsewhere.value().token.empty())) return Status();
  return Status::error(StatusCode::kInvalidArgument, {"open a device"},
                       "encrypt is set and token is not", "set the token that all peers share");
}

Result<LocalIdentity> DeviceState::identity_at(bool loopback, const std::string& operation) const {
  const Result<Secret>& secret = secrets_.at(loopback);
  if (!secret.ok()) {
    return Status(secret.status().code(), operation + ": " + secret.status().message());
  }
  LocalIdentity identity = identity_;
  identity.token = secret.value().token;
  identity.token_origin = secret.value().origin;
  return identity;
}

Status DeviceState::make_arena() {
  memory::ArenaOptions arena;
  arena.name = "send memory";
  arena.limit_bytes = options_.send_limit;
  arena.limit_option = "send_limit";
  arena.segment_bytes = options_.segment_bytes;
  arena.use = memory::SegmentUse::kExport;
  arena.huge_pages = to_memory(options_.huge_pages);
  arena.prefault = options_.prefault;
  arena.numa = placement_;
  arena.on_segment = [this](const std::shared_ptr<memory::Segment>& segment) {
    auto keys = register_segment(segment);
    if (!keys.ok()) return keys.status();
    const core::WriterLock lock(keys_mutex_);
    segment_keys_.emplace(segment->id(), *std::move(keys));
    return Status();
  };
  arena.on_segment_removed = [this](const std::shared_ptr<memory::Segment>& segment) {
    const core::WriterLock lock(keys_mutex_);
    segment_keys_.erase(segment->id());
  };
  auto created = memory::Arena::create(std::move(arena));
  if (!created.ok()) return created.status();
  arena_ = *std::move(created);
  return Status();
}

Status DeviceState::usable(std::string_view operation) const {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check(operation));
  if (!closing_.load()) return Status();
  return Status::error(StatusCode::kFailedPrecondition, {operation}, "the device is closed",
                       "open another one");
}

bool DeviceState::on_own_thread() const { return core::Inside::is(this); }

bool DeviceState::inside_callback() const {
  if (on_own_thread()) return true;
  const std::vector<std::shared_ptr<ChannelState>> channels = this->channels();
  return std::any_of(channels.begin(), channels.end(),
                     [](const auto& channel) { return channel->entered_by_this_thread(); });
}

const fabric::Capabilities& DeviceState::capabilities(FabricKind kind) const {
  static const fabric::Capabilities kNone;
  for (const auto& fabric : fabrics_) {
    if (fabric->kind() == kind) return fabric->capabilities();
  }
  return kNone;
}

Poller& DeviceState::next_poller() {
  return *pollers_[next_poller_.fetch_add(1) % pollers_.size()];
}

RegionDescriptor DeviceState::new_descriptor(Access access, std::uint64_t offset,
                                             std::uint64_t length) {
  RegionDescriptor descriptor;
  descriptor.device_uuid = identity_.uuid;
  descriptor.epoch = identity_.epoch;
  descriptor.region_id = regions_->next_id();
  descriptor.offset = offset;
  descriptor.length = length;
  descriptor.access = access;
  return descriptor;
}

Result<std::shared_ptr<RegionState>> DeviceState::allocate(std::uint64_t bytes, MemoryKind kind) {
  FARWRITE_RETURN_IF_ERROR(usable("allocate"));
  auto memory = kind.on_gpu() ? RegionMemory::on_gpu(kind, bytes, memory::SegmentUse::kExport)
                              : RegionMemory::in(arena_, bytes);
  if (!memory.ok()) return memory.status();
  RegionDescriptor descriptor = new_descriptor(Access::kRead, memory->offset(), bytes);
  const std::shared_ptr<memory::Segment> segment = memory->segment();
  if (segment->gpu() != nullptr) {
    auto keys = register_segment(segment);
    if (!keys.ok()) return keys.status();
    descriptor.keys = *std::move(keys);
    descriptor.gpu = segment->gpu()->uuid();
  } else {
    const core::ReaderLock lock(keys_mutex_);
    descriptor.keys = segment_keys_.at(segment->id());
  }
  auto region =
      std::make_shared<RegionState>(regions_, *std::move(memory), std::move(descriptor), nullptr);
  regions_->add(region);
  return region;
}

Result<std::vector<FabricKey>> DeviceState::register_segment(
    const std::shared_ptr<memory::Segment>& segment) {
  // An allocation needs the fabrics only for a new segment; close() waits for it.
  const core::Gate::Pass pass(gate_);
  FARWRITE_RETURN_IF_ERROR(usable("allocate"));
  const bool on_gpu = segment->gpu() != nullptr;
  std::vector<FabricKey> keys;
  Status refused = Status::error(StatusCode::kUnsupported, {"allocate GPU memory"},
                                 "none of this device's fabrics reaches the memory of a GPU",
                                 "add shm to its fabrics, or allocate host memory");
  for (const auto& fabric : fabrics_) {
    const fabric::Capabilities& can = fabric->capabilities();
    if (on_gpu && !can.gpu_exports) continue;
    auto key = fabric->register_segment(segment);
    if (key.ok()) {
      keys.push_back({fabric->kind(), *key});
      registrations_.add();
      continue;
    }
    refused = key.status();
    if (!on_gpu && (!can.may_refuse_segments || fabrics_.size() == 1)) return refused;
    // A peer that needs this fabric is answered that the descriptor has no key for it.
    if (on_gpu && warned_of_gpus_.exchange(true)) continue;
    core::log(core::LogLevel::kWarning,
              "peers cannot reach " + std::string(on_gpu ? "a GPU's memory" : "a memory segment") +
                  " over " + std::string(to_string(fabric->kind())) + ": " + refused.message());
  }
  if (keys.empty()) return refused;
  return keys;
}

void DeviceState::pin(const gpu::Gpu& gpu, const void* local) {
  if (const auto place = arena_->locate(local); place.has_value()) place->segment->pin(gpu);
}

Result<std::byte*> DeviceState::allocate_raw(std::uint64_t bytes) {
  FARWRITE_RETURN_IF_ERROR(usable("allocate"));
  auto block = arena_->allocate(bytes);
  if (!block.ok()) return block.status();
  return block->data;
}

Result<std::shared_ptr<std::byte>> DeviceState::allocate_owned(std::uint64_t bytes) {
  const Result<std::byte*> memory = allocate_raw(bytes);
  if (!memory.ok()) return memory.status();
  return std::shared_ptr<std::byte>(memory.value(),
                                    [arena = arena_](std::byte* block) { arena->free(block); });
}

Result<MemoryRegistration> DeviceState::register_memory(ByteView memory, bool writable) {
  constexpr std::string_view kOperation = "register memory";
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check(kOperation));
  const core::Gate::Pass pass(gate_);
  if (!pass) return usable(kOperation);
  if (memory.data == nullptr || memory.size == 0) {
    return Status::error(StatusCode::kInvalidArgument, {kOperation}, "the memory has no bytes",
                         "pass memory of at least one byte");
  }
  MemoryRegistration::Handles handles;
  for (const auto& fabric : fabrics_) {
    auto handle = fabric->register_memory(memory, writable);
    if (!handle.ok()) return handle.status();
    if (*handle != nullptr) handles.push_back(*std::move(handle));
  }
  return MemoryRegistration(memory, std::move(handles));
}

bool DeviceState::contains(ByteView memory) const {
  const auto place = arena_->locate(memory.data);
  return place.has_value() && memory.size <= place->segment->bytes() - place->offset;
}

Status DeviceState::find_lendable(ByteView memory, FabricKind fabric, std::uint64_t& key,
                                  std::uint64_t& offset) {
  const auto place = arena_->locate(memory.data);
  if (!place.has_value() || memory.size > place->segment->bytes() - place->offset) {
    return Status::error(StatusCode::kInvalidArgument, {"lend"},
                         "the memory does not lie in one segment of this device's send memory",
                         "lend memory that the device allocated");
  }
  offset = place->offset;
  const core::ReaderLock lock(keys_mutex_);
  for (const FabricKey& candidate : segment_keys_.at(place->segment->id())) {
    if (candidate.fabric == fabric) key = candidate.key;
  }
  return Status();
}

Status DeviceState::check_publishable(const PublishedRegion& published,
                                      const LandingMemory* landing) const {
  const auto refuse = [](StatusCode code, std::string_view cause, std::string_view remedy) {
    return Status::error(code, {"publish"}, cause, remedy);
  };
  if (published.region == nullptr) {
    return refuse(StatusCode::kInvalidArgument, "the handle is empty",
                  "pass memory from allocate()");
  }
  if (published.region->closed()) {
    return refuse(StatusCode::kFailedPrecondition, "the memory was closed",
                  "allocate other memory");
  }
  if (published.region->descriptor().device_uuid != identity_.uuid ||
      published.region->descriptor().epoch != identity_.epoch) {
    return refuse(StatusCode::kInvalidArgument, "the memory belongs to another device",
                  "publish it on that device");
  }
  if (published.region->landing() != nullptr && published.region->landing() != landing) {
    return refuse(StatusCode::kPermissionDenied, "only one peer may write the memory",
                  "publish it on the channel that allocated it");
  }
  return Status();
}

Status DeviceState::publish(std::string_view name, PublishedRegion published) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("publish"));
  const core::Gate::Pass pass(gate_);
  FARWRITE_RETURN_IF_ERROR(usable("publish"));
  FARWRITE_RETURN_IF_ERROR(check_publishable(published, nullptr));
  FARWRITE_RETURN_IF_ERROR(names_.publish(name, std::move(published)));
  for (const auto& channel : channels()) {
    loop_->post([channel] { channel->answer_parked_lookups(); });
  }
  return Status();
}

Status DeviceState::unpublish(std::string_view name) {
  FARWRITE_RETURN_IF_ERROR(usable("unpublish"));
  if (names_.unpublish(name)) return Status();
  return Status::error(StatusCode::kNotFound, {"unpublish"},
                       "nothing is published under \"" + std::string(name) + "\"",
                       "the published names are: " + names_.names());
}

std::vector<std::shared_ptr<ChannelState>> DeviceState::channels() const {
  const core::Lock lock(mutex_);
  return channels_;
}

void DeviceState::tick(std::chrono::nanoseconds period) {
  // This process may have been stopped, or have had no CPU, while its peers spoke.
  const std::chrono::nanoseconds now(core::now_ns());
  const auto absence = std::max<std::chrono::nanoseconds>(now - last_tick_ - period, {});
  last_tick_ = now;
  if (memory::ForkedReaders::any()) memory::ForkedReaders::refresh();
  arena_->reclaim();
  arena_->trim_idle(options_.memory_idle_time);
  for (const auto& channel : channels()) channel->tick(now, absence);
}

DeviceStats DeviceState::stats() const {
  DeviceStats stats;
  if (fork_guard_.in_forked_child()) return stats;
  const memory::ArenaStats send = arena_->stats();
  stats.send = {options_.send_limit, send.reserved_bytes, send.used_bytes,     send.peak_used_bytes,
                send.segments,       send.failures,       send.held_back_bytes};
  stats.receive.limit = options_.receive_limit;
  stats.receive.used = receive_quota_->in_use();
  stats.receive.peak_used = receive_quota_->peak();
  stats.receive.refusals = receive_quota_->refusals();
  for (const auto& channel : channels()) {
    const memory::ArenaStats landing = channel->landing_stats();
    stats.receive.reserved += landing.reserved_bytes;
    stats.receive.segments += landing.segments;
    stats.receive.held_back += landing.held_back_bytes;
    const ChannelStats counts = channel->stats();
    stats.leases_held_by_peers += counts.leases_granted - counts.leases_released;
    stats.quarantined_bytes += counts.quarantined_bytes;
  }
  stats.registrations = registrations_.value();
  stats.channels_opened = channels_opened_.value();
  stats.handshakes_refused = handshakes_refused_.value();
  const core::Lock lock(mutex_);
  stats.channels_open = channels_.size();
  stats.adapters = closed_adapters_;
  stats.gpu = gpu::counters().stats();
  for (const auto& fabric : fabrics_) {
    add_counters(stats.adapters, fabric->registration_counters());
  }
  stats.choices = choices_;
  return stats;
}

}  // namespace farwrite::device
