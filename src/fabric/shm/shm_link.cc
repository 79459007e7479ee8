#include "fabric/shm/shm_link.h"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "core/prefetch.h"
#include "core/trace.h"
#include "farwrite/copy.h"

namespace farwrite::fabric::shm {
namespace {

// Records delivered by one poll, so that other lanes of the same poller get their turn.
constexpr std::size_t kPollBatch = 256;
// A sender that is this far ahead of its receiver is told so instead of eating memory.
constexpr std::size_t kMaxBacklogRecords = 1 << 16;
constexpr std::size_t kMaxBacklogBytes = std::size_t{64} << 20;
// A notified write up to this size is copied under the lane's lock; copying a page takes as long as
// some ten notifications.
constexpr std::uint64_t kSmallWriteBytes = 4096;

// A region of the peer, mapped. A landing region also has the row that guards it.
class ShmWindow final : public RemoteWindow {
 public:
  ShmWindow(std::shared_ptr<memory::MappedSegment> segment, const RegionDescriptor& descriptor,
            GrantRow* row, std::uint32_t row_index)
      : region_id(descriptor.region_id),
        row(row),
        row_index(row_index),
        segment_(std::move(segment)) {
    length = descriptor.length;
    mapped = segment_->base() + descriptor.offset;
    if (row != nullptr) writable = segment_->mutable_base() + descriptor.offset;
  }

  const std::uint64_t region_id;
  GrantRow* const row;
  const std::uint32_t row_index;
  std::byte* writable = nullptr;

 private:
  const std::shared_ptr<memory::MappedSegment> segment_;
};

void ring(const core::UniqueFd& doorbell) {
  constexpr std::uint64_t kOne = 1;
  // Cannot fail in a way that matters: a full eventfd is readable already.
  [[maybe_unused]] const ssize_t count = ::write(doorbell.get(), &kOne, sizeof(kOne));
}

void silence(const core::UniqueFd& doorbell) {
  // The peer shares the file description and might make it blocking; this read never blocks.
  std::uint64_t rings = 0;
  const iovec piece{&rings, sizeof(rings)};
  if (::preadv2(doorbell.get(), &piece, 1, -1, RWF_NOWAIT) >= 0 || errno != EOPNOTSUPP) return;
  // Linux before 5.8.
  pollfd entry{doorbell.get(), POLLIN, 0};
  if (::poll(&entry, 1, 0) <= 0) return;
  [[maybe_unused]] const ssize_t count = ::read(doorbell.get(), &rings, sizeof(rings));
}

}  // namespace

ShmLink::Lane::Lane(const MailboxView& own, const MailboxView& peer, std::uint32_t index,
                    core::UniqueFd own_fd, core::UniqueFd peer_fd)
    : producer(peer.cells(index), &peer.control(index), peer.geometry().cells),
      consumer(own.cells(index), &own.control(index), own.geometry().cells),
      own_doorbell(std::move(own_fd)),
      peer_doorbell(std::move(peer_fd)) {}

ShmLink::ShmLink(Attachment attachment, const AttachRequest& request, core::EventLoop& loop,
                 FindSegment find_export)
    : peer_name_(request.peer_name),
      observer_(request.observer),
      loop_(loop),
      find_export_(std::move(find_export)),
      own_mailbox_(std::move(attachment.own)),
      peer_mailbox_(std::move(attachment.peer)),
      grants_(own_mailbox_.view) {
  for (std::uint32_t i = 0; i < request.lanes; ++i) {
    lanes_.push_back(std::make_unique<Lane>(own_mailbox_.view, peer_mailbox_.view, i,
                                            std::move(attachment.own_doorbells[i]),
                                            std::move(attachment.peer_doorbells[i])));
  }
  // Two devices of one process, as in tests: its death needs no detection.
  const bool same_process = peer_pid(attachment.socket.get()) == ::getpid();
  if (!same_process) pidfd_ = peer_pidfd(attachment.socket.get());
  const bool socket_end_is_death = !same_process && !pidfd_.valid();
  segments_ = std::make_unique<SegmentExchange>(
      std::move(attachment.socket), loop_, peer_name_,
      [this](std::uint32_t id) {
        const std::shared_ptr<memory::Segment> landing = grants_.find_segment(id);
        return landing != nullptr ? landing : find_export_(id);
      },
      [this, socket_end_is_death](const Status& reason) {
        // Without a pidfd the end of the socket is the best proof there is; with one, the process
        // may live on, and only its end proves that nothing more lands.
        if (reason.code() == StatusCode::kProtocolError) poison(reason, /*dead=*/false);
        if (reason.code() == StatusCode::kUnavailable && socket_end_is_death) {
          on_peer_process_gone();
        }
      });
  segments_->start();
  if (pidfd_.valid()) {
    const Status watched =
        loop_.add_fd(pidfd_.get(), EPOLLIN, [this](std::uint32_t) { on_peer_process_gone(); });
    if (!watched.ok()) poison(watched, /*dead=*/false);
  }
}

ShmLink::~ShmLink() {
  if (pidfd_.valid()) loop_.remove_fd(pidfd_.get());
  segments_.reset();
  for (const auto& lane : lanes_) {
    for (const Backlogged& record : lane->backlog) {
      record.completion->finish(error(StatusCode::kCancelled, "notify", "the channel was closed",
                                      "keep it open until the peer has taken its notifications"));
    }
  }
}

Result<std::uint64_t> ShmLink::grant(const std::shared_ptr<memory::Segment>& segment,
                                     std::uint64_t offset, std::uint64_t length,
                                     std::uint64_t region_id) {
  return grants_.grant(segment, {segment->base() + offset, length}, region_id, peer_name_);
}

Status ShmLink::revoke(std::uint64_t key, std::uint64_t region_id, core::Deadline deadline) {
  return grants_.revoke(key, region_id, deadline, peer_name_);
}

Result<std::shared_ptr<RemoteWindow>> ShmLink::import(const RegionDescriptor& descriptor,
                                                      core::Deadline deadline) {
  const auto shm_key =
      std::find_if(descriptor.keys.begin(), descriptor.keys.end(),
                   [](const FabricKey& key) { return key.fabric == FabricKind::kShm; });
  if (shm_key == descriptor.keys.end()) {
    return error(StatusCode::kUnavailable, "open a region", "the descriptor has no key for shm",
                 "ask its owner for a descriptor that was made while shm was in use");
  }
  const GrantKey key = GrantKey::unpack(shm_key->key);
  auto segment = segments_->obtain(key.segment_id, deadline);
  if (!segment.ok()) return segment.status();
  const std::uint64_t bytes = (*segment)->bytes();
  if (descriptor.offset > bytes || descriptor.length > bytes - descriptor.offset) {
    return error(StatusCode::kOutOfRange, "open a region",
                 "the descriptor ends past the peer's memory", "ask its owner for a fresh one");
  }
  GrantRow* row = nullptr;
  if (descriptor.access == Access::kWrite) {
    if (!(*segment)->writable() || key.row >= peer_mailbox_.view.geometry().rows) {
      return error(StatusCode::kPermissionDenied, "open a region",
                   "the descriptor asks for writing, and the peer's memory is read-only",
                   "write to memory that the peer allocated for this channel");
    }
    row = &peer_mailbox_.view.row(key.row);
  }
  return std::shared_ptr<RemoteWindow>(
      std::make_shared<ShmWindow>(*std::move(segment), descriptor, row, key.row));
}

Completion ShmLink::post(const Operation& operation) {
  if (poisoned_.load(std::memory_order_relaxed)) [[unlikely]] {
    const std::lock_guard<std::mutex> lock(reason_mutex_);
    return Completion(reason_);
  }
  switch (operation.kind) {
    case OperationKind::kWrite:
      return write(operation);
    case OperationKind::kRead:
      return read(operation);
    case OperationKind::kNotify:
      return push(*lanes_[operation.lane], RecordKind::kNotification, operation.tag, {});
    case OperationKind::kMessage:
      return push(*lanes_[operation.lane], RecordKind::kMessage, operation.tag, operation.source);
    case OperationKind::kRecord:
      return push(*lanes_[operation.lane], RecordKind::kRecord, operation.tag, operation.source);
    case OperationKind::kFlush:
      // Every write was remote_visible when its post() returned.
      return Completion(Status());
    case OperationKind::kEnd:
      // What is in the ring stays there.
      return Completion(Status());
  }
  return Completion(error(StatusCode::kInternal, "post", "unknown operation", "report this"));
}

Completion ShmLink::write(const Operation& operation) {
  auto& window = static_cast<ShmWindow&>(*operation.window);
  std::byte* const target = window.writable + operation.offset;
  const std::uint64_t bytes = operation.head.size + operation.source.size;
  Lane& lane = *lanes_[operation.lane];
  const bool small = operation.notify && bytes <= kSmallWriteBytes;
  if (small) {
    // The receiver read both lines last, so the stores would wait for each in turn.
    lane.producer.prefetch();
    core::prefetch_for_write(target);
  }
  std::unique_lock<std::mutex> sending(lane.sending, std::defer_lock);
  {
    const InflightWrite inflight(*window.row, window.region_id);
    if (!inflight.open()) {
      return Completion(error(StatusCode::kFailedPrecondition, "write",
                              "the region was closed by its owner",
                              "ask the peer for another region"));
    }
    // Locking drains the store buffer, and the stores of the copy are the slow ones. So the lock of
    // a small write is taken before them, and nothing stands between them and the stamp.
    if (small) sending.lock();
    if (operation.head.size > 0) std::memcpy(target, operation.head.data, operation.head.size);
    if (bytes >= kStreamingCopyBytes && warm_targets_.note(target, bytes)) {
      std::memcpy(target + operation.head.size, operation.source.data, operation.source.size);
    } else {
      copy_bytes(target + operation.head.size, operation.source.data, operation.source.size);
    }
    if (small && lane.backlog.empty() &&
        lane.producer.push(operation.tag, {window.row_index, static_cast<std::uint32_t>(bytes),
                                           operation.offset}) == RingProducer::Outcome::kPushed)
        [[likely]] {
      ring_if_asleep(lane);
      copies_.add();
      return Completion(Status());
    }
  }
  copies_.add();
  if (!operation.notify) return Completion(Status());
  if (sending.owns_lock()) sending.unlock();
  return push(lane, RecordKind::kNotification, operation.tag, {});
}

Completion ShmLink::read(const Operation& operation) {
  copy_bytes(operation.destination.data, operation.window->mapped + operation.offset,
             operation.destination.size);
  copies_.add();
  return Completion(Status());
}

Completion ShmLink::push(Lane& lane, RecordKind kind, std::uint32_t tag, ByteView payload) {
  std::unique_lock<std::mutex> lock(lane.sending);
  if (lane.backlog.empty()) [[likely]] {
    const RingProducer::Outcome outcome = lane.producer.push(kind, tag, payload);
    if (outcome == RingProducer::Outcome::kPushed) [[likely]] {
      ring_if_asleep(lane);
      return Completion(Status());
    }
    if (outcome == RingProducer::Outcome::kCorrupt) {
      lock.unlock();
      const Status reason = corrupt_ring();
      poison(reason, /*dead=*/false);
      return Completion(reason);
    }
  }
  if (poisoned_.load()) {  // since post() looked: poison() has emptied the backlog already
    const std::lock_guard<std::mutex> reason_lock(reason_mutex_);
    return Completion(reason_);
  }
  if (lane.backlog.size() >= kMaxBacklogRecords ||
      lane.backlog_bytes + payload.size > kMaxBacklogBytes) {
    return Completion(error(StatusCode::kResourceExhausted, "notify",
                            std::to_string(lane.backlog.size()) +
                                " notifications wait for the peer to take earlier ones",
                            "let the peer take its notifications, or send fewer at once"));
  }
  auto completion = std::make_shared<core::CompletionState>();
  lane.backlog.push_back(
      {kind, tag, std::vector<std::byte>(payload.data, payload.data + payload.size), completion});
  lane.backlog_bytes += payload.size;
  lane.has_backlog.store(true);
  backlogged_.add();
  core::trace_instant("backlogged", "shm", peer_name_, payload.size, 0, tag);
  return Completion(std::move(completion));
}

bool ShmLink::drain_backlog(Lane& lane) {
  std::vector<std::shared_ptr<core::CompletionState>> pushed;
  bool left = false;
  bool corrupt = false;
  {
    const std::lock_guard<std::mutex> lock(lane.sending);
    while (!lane.backlog.empty()) {
      Backlogged& record = lane.backlog.front();
      const RingProducer::Outcome outcome = lane.producer.push(
          record.kind, record.tag, {record.payload.data(), record.payload.size()});
      corrupt = outcome == RingProducer::Outcome::kCorrupt;
      if (outcome != RingProducer::Outcome::kPushed) break;
      lane.backlog_bytes -= record.payload.size();
      pushed.push_back(std::move(record.completion));
      lane.backlog.pop_front();
    }
    if (!pushed.empty()) ring_if_asleep(lane);
    left = !lane.backlog.empty();
    lane.has_backlog.store(left);
  }
  for (const auto& completion : pushed) completion->finish(Status());
  if (corrupt) poison(corrupt_ring(), /*dead=*/false);
  return left && !corrupt;
}

void ShmLink::ring_if_asleep(Lane& lane) {
  if (!lane.producer.take_wake_request()) return;
  ring(lane.peer_doorbell);
  doorbells_.add();
}

Progress ShmLink::poll(std::uint32_t lane_index, EventSink& sink) {
  Lane& lane = *lanes_[lane_index];
  Progress progress;
  if (lane.polling.test_and_set(std::memory_order_acquire)) {
    // The other thread may have looked before the backlog was there, and no doorbell announces the
    // room that it waits for.
    progress.pending = lane.has_backlog.load();
    return progress;
  }
  Record record;
  RingConsumer::Outcome outcome = RingConsumer::Outcome::kEmpty;
  while (!lane.corrupt.load() && progress.delivered < kPollBatch &&
         (outcome = lane.consumer.pop(record)) == RingConsumer::Outcome::kRecord) {
    ++progress.delivered;
    grants_.prefetch(record.landing);
    Notification arrival{record.tag, lane_index, std::move(record.payload), {}};
    if (record.kind == RecordKind::kRecord) {
      sink.on_record(std::move(arrival));
    } else {
      sink.on_notification(std::move(arrival));
    }
  }
  if (outcome == RingConsumer::Outcome::kCorrupt) lane.corrupt.store(true);
  progress.drained = lane.corrupt.load() || outcome == RingConsumer::Outcome::kEmpty;
  progress.pending = progress.delivered == kPollBatch;
  // Before another thread may find the lane drained: what is pushed here has ended by then.
  if (outcome != RingConsumer::Outcome::kCorrupt && lane.has_backlog.load() &&
      drain_backlog(lane)) {
    progress.pending = true;
  }
  lane.polling.clear(std::memory_order_release);
  if (outcome == RingConsumer::Outcome::kCorrupt) [[unlikely]] {
    poison(error(StatusCode::kProtocolError, "take a notification",
                 "the peer put a malformed record into the ring", "restart the peer"),
           /*dead=*/false);
  }
  return progress;
}

bool ShmLink::worth_polling(std::uint32_t lane_index) const {
  const Lane& lane = *lanes_[lane_index];
  return !lane.consumer.empty() || lane.has_backlog.load(std::memory_order_relaxed);
}

Doorbell ShmLink::arm(std::uint32_t lane_index) {
  Lane& lane = *lanes_[lane_index];
  Doorbell doorbell{lane.own_doorbell.get(), false};
  if (lane.polling.test_and_set(std::memory_order_acquire)) {
    doorbell.ready = true;  // another thread is taking what is there
    return doorbell;
  }
  // Earlier rings first: what they announced is in the ring, and looked at below. Only here, never
  // in poll(), or one thread's poll would take another one's wake-up away.
  silence(lane.own_doorbell);
  lane.consumer.request_wake();
  doorbell.ready = !lane.corrupt.load() && !lane.consumer.empty();
  if (doorbell.ready) lane.consumer.withdraw_wake_request();
  lane.polling.clear(std::memory_order_release);
  return doorbell;
}

void ShmLink::disarm(std::uint32_t lane_index) {
  Lane& lane = *lanes_[lane_index];
  if (lane.polling.test_and_set(std::memory_order_acquire)) return;
  lane.consumer.withdraw_wake_request();
  lane.polling.clear(std::memory_order_release);
}

LinkCounters ShmLink::counters() const {
  return {copies_.value(), backlogged_.value(), doorbells_.value()};
}

void ShmLink::poison(const Status& reason, bool dead) {
  {
    const std::lock_guard<std::mutex> lock(reason_mutex_);
    if (reason_.ok() || dead) reason_ = reason;
  }
  const bool first = !poisoned_.exchange(true);
  if (segments_ != nullptr) segments_->fail(reason);
  for (const auto& lane : lanes_) {
    std::deque<Backlogged> backlog;
    {
      const std::lock_guard<std::mutex> lock(lane->sending);
      backlog.swap(lane->backlog);
      lane->backlog_bytes = 0;
      lane->has_backlog.store(false);
    }
    for (const Backlogged& record : backlog) record.completion->finish(reason);
    ring(lane->own_doorbell);
  }
  if (dead && !peer_dead_.exchange(true)) {
    observer_->on_peer_dead(reason);
  } else if (first && !dead) {
    observer_->on_link_error(reason);
  }
}

void ShmLink::on_peer_process_gone() {
  if (pidfd_.valid()) loop_.remove_fd(pidfd_.get());
  grants_.peer_died();
  poison(error(StatusCode::kPeerDead, "use the channel", "the peer's process is gone",
               "restart it and connect again"),
         /*dead=*/true);
}

Status ShmLink::corrupt_ring() const {
  return error(StatusCode::kProtocolError, "notify", "the peer's ring is corrupt",
               "restart the peer");
}

Status ShmLink::error(StatusCode code, std::string_view operation, std::string_view cause,
                      std::string_view remedy) const {
  return Status::error(code, {operation, peer_name_, "shm"}, cause, remedy);
}

}  // namespace farwrite::fabric::shm
