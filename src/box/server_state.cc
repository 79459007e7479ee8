#include "box/server_state.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "box/messages.h"
#include "box/snapshot_directory.h"
#include "core/counter_table.h"
#include "core/deadline.h"
#include "core/exposition.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/start_thread.h"
#include "device/device_state.h"

namespace farwrite::box {
namespace {

constexpr std::uint64_t kMemoryStep = kMinMemoryLimit;
constexpr std::uint32_t kMaxThreads = 1024;
// How often threads of clients that have left are joined, while nothing comes.
constexpr std::chrono::nanoseconds kTidyEvery = std::chrono::seconds(1);

DeviceOptions device_options(const ServerOptions& options) {
  DeviceOptions device = options.device;
  if (device.name.empty()) device.name = "box";
  constexpr std::uint64_t kMost = ~std::uint64_t{0} / kMemoryStep * kMemoryStep;
  const std::uint64_t memory = std::min(options.memory, kMost);
  const std::uint64_t limit = (memory + kMemoryStep - 1) / kMemoryStep * kMemoryStep;
  device.send_limit = std::max(limit, kMemoryStep);
  // What one client may hold is bounded by the buffers; it holds some of them several times.
  device.send_limit_per_peer = std::numeric_limits<std::uint64_t>::max();
  return device;
}

unsigned threads_of(const ServerOptions& options) {
  return options.threads > 0 ? options.threads : std::max(1U, std::thread::hardware_concurrency());
}

// The pool is populated, and the kernel ends some process of the machine before it refuses a page.
Status check_machine_has(std::uint64_t bytes) {
  std::ifstream file("/proc/meminfo");
  std::string name;
  std::uint64_t kilobytes = 0;
  for (std::string line; std::getline(file, line);) {
    if (!(std::istringstream(line) >> name >> kilobytes) || name != "MemAvailable:") continue;
    if (bytes <= kilobytes * 1024) return Status();
    return Status::error(StatusCode::kResourceExhausted, {.operation = "serve a box"},
                         "the machine has " + std::to_string(kilobytes * 1024) +
                             " bytes of memory available for a pool of " + std::to_string(bytes),
                         "use a smaller pool");
  }
  return Status();  // a kernel that does not say
}

Status no_directory() {
  return Status::error(StatusCode::kFailedPrecondition, {.operation = "write a snapshot"},
                       "the server has no directory for snapshots", "serve with one");
}

}  // namespace

Result<std::shared_ptr<ServerState>> ServerState::serve(const ServerOptions& options) {
  if (options.memory < kMinMemoryLimit) {
    return Status::error(
        StatusCode::kInvalidArgument, {.operation = "serve a box"},
        "a memory of " + std::to_string(options.memory) + " bytes holds no segment",
        "serve with 2 MiB or more");
  }
  if (options.threads > kMaxThreads) {
    return Status::error(
        StatusCode::kInvalidArgument, {.operation = "serve a box"},
        std::to_string(options.threads) + " threads",
        "use at most " + std::to_string(kMaxThreads) + ", or 0 for as many as processors");
  }
  if (options.pool > options.memory) {
    return Status::error(StatusCode::kInvalidArgument, {.operation = "serve a box"},
                         "the pool of " + std::to_string(options.pool) +
                             " bytes is more than the memory of " + std::to_string(options.memory),
                         "use a smaller pool, or more memory");
  }
  const Result<std::shared_ptr<device::DeviceState>> device =
      device::DeviceState::open(device_options(options), kService);
  if (!device.ok()) return device.status();
  // Not make_shared: the constructor is private.
  std::shared_ptr<ServerState> state(
      new ServerState(options, Device(device.value()->user_handle())));
  FARWRITE_RETURN_IF_ERROR(state->start());
  return state;
}

ServerState::ServerState(ServerOptions options, Device device)
    : options_(std::move(options)),
      device_(std::move(device)),
      table_(device_),
      workspace_(std::make_shared<Workspace>(device_)),
      loop_(threads_of(options_)) {}

Status ServerState::start() {
  if (options_.pool > 0) {
    FARWRITE_RETURN_IF_ERROR(check_machine_has(options_.pool));
    // What is given back stays in the device's segments, registered.
    {
      const Result<MemoryRegion> pool = device_.allocate(options_.pool);
      if (!pool.ok()) return pool.status();  // the machine's reason: the pool is within the limit
    }
    // In the pool, because memory that is wholly free does not stay.
    Result<MemoryRegion> anchor = device_.allocate(1);
    if (!anchor.ok()) return anchor.status();
    pool_anchor_ = *std::move(anchor);
  }
  FARWRITE_RETURN_IF_ERROR(start_snapshots());
  return core::start_thread(acceptor_, {.operation = "serve a box"}, [this] { accept_clients(); });
}

Status ServerState::start_snapshots() {
  if (options_.snapshot_directory.empty()) {
    if (!options_.restore && options_.snapshot_every.count() == 0) return Status();
    return Status::error(StatusCode::kInvalidArgument, {.operation = "serve a box"},
                         "there is no directory for snapshots", "give one");
  }
  // What is restored must be there already.
  if (!options_.restore && ::mkdir(options_.snapshot_directory.c_str(), 0777) != 0 &&
      errno != EEXIST) {
    return snapshot_io_error("open the directory of snapshots",
                             options_.snapshot_directory + " cannot be created", errno);
  }
  Result<std::unique_ptr<Snapshotter>> opened =
      Snapshotter::open(options_.snapshot_directory, table_);
  if (!opened.ok()) return opened.status();
  snapshotter_ = *std::move(opened);
  FARWRITE_RETURN_IF_ERROR(options_.restore ? snapshotter_->restore()
                                            : snapshotter_->check_empty());
  if (options_.snapshot_every.count() == 0) return Status();
  return snapshotter_->start(options_.snapshot_every);
}

ServerState::~ServerState() {
  const Status status = close(std::chrono::seconds(1));
  if (!status.ok()) core::log(core::LogLevel::kWarning, "box: " + status.message());
}

void ServerState::accept_clients() {
  while (true) {
    Result<Channel> channel = device_.accept(kTidyEvery);
    join_ended();
    if (!channel.ok()) {
      if (channel.status().code() == StatusCode::kDeadlineExceeded) continue;
      const core::Lock lock(mutex_);
      if (!closed_) {
        core::log(core::LogLevel::kError,
                  "box: no further client is accepted: " + channel.status().message());
      }
      return;
    }
    const core::Lock lock(mutex_);
    if (closed_) return;
    const auto session = std::make_shared<Session>(*this, *std::move(channel));
    ServedClient& connection =
        connections_.emplace_back(ServedClient{.session = session, .thread = {}});
    const Status started = core::start_thread(connection.thread, {.operation = "accept a client"},
                                              [session] { session->run(); });
    if (started.ok()) continue;
    session->turn_away(started);
    core::log(core::LogLevel::kWarning, started.message());
    connections_.pop_back();
  }
}

void ServerState::join_ended() {
  std::list<ServedClient> ended;
  {
    const core::Lock lock(mutex_);
    for (auto connection = connections_.begin(); connection != connections_.end();) {
      const auto next = std::next(connection);
      if (connection->session->ended()) ended.splice(ended.end(), connections_, connection);
      connection = next;
    }
  }
  for (ServedClient& connection : ended) connection.thread.join();
}

void ServerState::count(const HostedSegment::ChangeResult& result) {
  changes_.fetch_add(1, std::memory_order_relaxed);
  bytes_changed_.fetch_add(result.length, std::memory_order_relaxed);
  if (result.switched) switches_.fetch_add(1, std::memory_order_relaxed);
  if (result.copied) copies_for_leases_.fetch_add(1, std::memory_order_relaxed);
}

SegmentInfo ServerState::describe(const HostedSegment& segment) const {
  SegmentInfo info = table_.describe(segment);
  const core::Lock lock(mutex_);
  for (const ServedClient& connection : connections_) {
    if (connection.session->silent() && connection.session->has_attached(segment.key())) {
      ++info.silent;
    }
  }
  return info;
}

Status ServerState::snapshot() {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("write a snapshot"));
  return snapshotter_ != nullptr ? snapshotter_->write() : no_directory();
}

ServerStats ServerState::stats() const {
  ServerStats stats;
  if (fork_guard_.in_forked_child()) return stats;
  {
    const core::Lock lock(mutex_);
    stats.clients = static_cast<std::uint64_t>(
        std::count_if(connections_.begin(), connections_.end(),
                      [](const ServedClient& connection) { return !connection.session->ended(); }));
  }
  for (const SegmentDirectory::Segment& segment : table_.all()) {
    ++stats.segments;
    stats.segment_bytes += segment->allocated();
    stats.leases += segment->leases();
  }
  stats.changes = changes_.load(std::memory_order_relaxed);
  stats.bytes_changed = bytes_changed_.load(std::memory_order_relaxed);
  stats.refused = refused_.load(std::memory_order_relaxed);
  stats.switches = switches_.load(std::memory_order_relaxed);
  stats.copies_for_leases = copies_for_leases_.load(std::memory_order_relaxed);
  stats.leases_granted = leases_granted_.load(std::memory_order_relaxed);
  if (snapshotter_ != nullptr) {
    stats.snapshots = snapshotter_->written();
    stats.snapshot_failures = snapshotter_->failures();
  }
  return stats;
}

std::string ServerState::metrics_text() const {
  if (fork_guard_.in_forked_child()) return {};
  const ServerStats stats = this->stats();
  const auto& table = core::counters<ServerStats>();
  core::Exposition out(std::nullopt);
  out.families(table.prefix, table.rows,
               [&](const auto& row) { out.sample({}, stats.*row.field); });
  return device_.metrics_text() + out.take();
}

Result<Draft> ServerState::draft(std::uint64_t key) {
  constexpr std::string_view kOperation = "draft a segment";
  const core::ReaderLock open(own_changes_);
  if (closed_) {
    return Status::error(StatusCode::kFailedPrecondition, {.operation = kOperation},
                         "the server is closed", "serve another box");
  }
  const Result<std::shared_ptr<HostedSegment>> segment = table_.find(key);
  if (!segment.ok()) return segment.status();
  const std::optional<std::uint32_t> buffer = segment.value()->draft();
  if (!buffer.has_value()) {
    return Status::error(StatusCode::kResourceExhausted, {.operation = kOperation},
                         "'" + segment.value()->spec().name +
                             "' has no free buffer: all are leased or being filled, or the "
                             "server's memory is full",
                         "release leases, create it with more buffers, or serve with more memory");
  }
  const core::Lock lock(mutex_);
  drafts_[{key, *buffer}] = segment.value();
  return Draft{.key = key, .buffer = *buffer, .bytes = segment.value()->draft_bytes(*buffer)};
}

std::shared_ptr<HostedSegment> ServerState::end_draft(const Draft& draft) {
  const core::Lock lock(mutex_);
  auto ended = drafts_.extract({draft.key, draft.buffer});
  return ended.empty() ? nullptr : std::move(ended.mapped());
}

void ServerState::drop(const Draft& draft) {
  if (const auto segment = end_draft(draft); segment != nullptr) segment->drop(draft.buffer);
}

Result<HostedSegment::ChangeResult> ServerState::commit(const Draft& draft, bool new_epoch,
                                                        std::uint64_t fence) {
  const core::ReaderLock open(own_changes_);
  const std::shared_ptr<HostedSegment> segment = end_draft(draft);
  const auto give_up = [&](Status status) {
    if (segment != nullptr) segment->drop(draft.buffer);
    return status;
  };
  if (closed_) {
    return give_up(Status::error(StatusCode::kFailedPrecondition, {.operation = "commit a draft"},
                                 "the server is closed", "serve another box"));
  }
  const Result<std::shared_ptr<HostedSegment>> listed = table_.find(draft.key);
  if (!listed.ok()) return give_up(listed.status());
  if (segment == nullptr) {
    return Status::error(StatusCode::kFailedPrecondition, {.operation = "commit a draft"},
                         "buffer " + std::to_string(draft.buffer) + " of '" +
                             listed.value()->spec().name + "' is no draft, or no longer",
                         "draft anew, and commit or drop each draft once");
  }
  const ChangeFields change = {
      .operation = Operation::kWrite, .length = Change::kWhole, .new_epoch = new_epoch};
  HostedSegment::Sources sources = {.draft = draft.buffer};
  if (fence != 0) {
    const Result<std::shared_ptr<HostedSegment>> found = table_.find(fence);
    if (!found.ok()) return give_up(found.status());
    sources.y = found.value();
  }
  Result<HostedSegment::ChangeResult> result = segment->apply(change, sources, loop_);
  if (result.ok()) count(result.value());
  return result;
}

Status ServerState::close(std::chrono::nanoseconds timeout, bool last_snapshot) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("close a box"));
  if (last_snapshot && snapshotter_ == nullptr) return no_directory();
  const core::Lock closing(closing_);
  std::list<ServedClient> connections;
  {
    const core::WriterLock own(own_changes_);
    const core::Lock lock(mutex_);
    closed_ = true;
    connections.swap(connections_);
  }
  // The leases end with the device, while clients may still look at the bytes. So every change ends
  // before it: the sessions' waits end with their channels, and what they apply they finish.
  const core::Deadline deadline = core::Deadline::after(timeout);
  for (ServedClient& connection : connections) connection.session->close(deadline.remaining());
  workspace_->close();
  for (ServedClient& connection : connections) connection.thread.join();
  Status written;
  if (snapshotter_ != nullptr) {
    // Nothing can change a segment any more, so every change that was answered is in it.
    if (last_snapshot) written = snapshotter_->write();
    snapshotter_->stop();
  }
  // Not with the last handle, which a program may keep: the device gives back what nothing holds.
  table_.clear();
  pool_anchor_ = MemoryRegion();
  Status status = device_.close(timeout);
  if (acceptor_.joinable()) acceptor_.join();
  return written.ok() ? status : written;
}

}  // namespace farwrite::box
