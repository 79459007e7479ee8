#include "fabric/shm/shm_lane.h"

#include <poll.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "core/cpu_relax.h"
#include "core/mutex.h"
#include "core/prefetch.h"
#include "core/processor.h"
#include "core/with_memory.h"
#include "fabric/shm/shm_link.h"
#include "gpu/gpu_copy.h"
#include "memory/copy.h"

namespace farwrite::fabric::shm {
namespace {

// Records delivered by one poll, so that other lanes of the same poller get their turn.
constexpr std::size_t kPollBatch = 256;
// A notified write of more than Lane::kSmallBytes is announced, and reported in pieces of a page,
// for which the receiver looks so many times in vain: about 10 us, longer than a page takes.
constexpr std::uint64_t kPieceBytes = 4096;
constexpr int kLooks = 200;
// No more than a cache keeps until the user reads it.
constexpr std::uint64_t kAnnouncedBytes = memory::WarmTargets::kCacheBytes;
// On an Intel Xeon this made 256 KiB 12 % faster than a plain loop. On an AMD EPYC the fetches slow
// the copy down: 5 % for one write, 20 % for one after the other.
bool announces() { return !core::processor_features().amd; }
// How far the sender's own fetches run ahead of its copy.
constexpr std::uint64_t kAheadBytes = 1024;
constexpr std::uint64_t kLineBytes = 64;

void fetch_line(std::byte* to, const std::byte* from) {
  core::prefetch_for_read(from);
  core::prefetch_for_write(to);
}

// Copies a piece of `left` bytes, with ordinary stores: either side may lie in another core's
// cache.
void copy_piece(std::byte* to, const std::byte* from, std::uint64_t piece, std::uint64_t left) {
  std::uint64_t at = 0;
  for (; at + kLineBytes <= piece; at += kLineBytes) {
    if (at + kAheadBytes < left) fetch_line(to + at + kAheadBytes, from + at + kAheadBytes);
    std::memcpy(to + at, from + at, kLineBytes);
  }
  std::memcpy(to + at, from + at, piece - at);
}

// Without a call for a word: a flag, a counter.
void copy_small(std::byte* to, ByteView from) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  if (from.size == kWord) {
    std::memcpy(to, from.data, kWord);
  } else if (from.size > 0) {
    std::memcpy(to, from.data, from.size);
  }
}

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

ShmWindow::ShmWindow(std::shared_ptr<memory::MappedSegment> segment,
                     const RegionDescriptor& descriptor, GrantRow* row, std::uint32_t row_index)
    : region_id(descriptor.region_id),
      row(row),
      row_index(row_index),
      segment_(std::move(segment)) {
  length = descriptor.length;
  mapped = segment_->base() + descriptor.offset;
  gpu = segment_->gpu();
  if (row != nullptr) writable = segment_->mutable_base() + descriptor.offset;
}

ShmLane::ShmLane(ShmLink& link, std::uint32_t index, const MailboxView& own,
                 const MailboxView& peer, core::UniqueFd own_doorbell, core::UniqueFd peer_doorbell)
    : link_(link),
      index_(index),
      producer_(peer.cells(index), &peer.control(index), peer.geometry().cells),
      outbox_("shm", link.peer_name()),
      consumer_(own.cells(index), &own.control(index), own.geometry().cells),
      own_doorbell_(std::move(own_doorbell)),
      peer_doorbell_(std::move(peer_doorbell)) {}

Completion ShmLane::post(const Operation& operation) {
  if (link_.poisoned()) [[unlikely]] {
    return Completion(link_.reason());
  }
  switch (operation.kind) {
    case OperationKind::kWrite:
      return write(operation);
    case OperationKind::kRead:
      return read(operation);
    case OperationKind::kNotify:
      return push(RecordKind::kNotification, operation);
    case OperationKind::kMessage:
      return push(RecordKind::kMessage, operation);
    case OperationKind::kRecord:
      return push(RecordKind::kRecord, operation);
    case OperationKind::kFlush:
      // Every write was remote_visible when its post() returned.
      return Completion(Status());
    case OperationKind::kEnd:
      // What is in the ring stays there.
      return Completion(Status());
  }
  return Completion(link_.error(StatusCode::kInternal, "post", "unknown operation", "report this"));
}

bool ShmLane::write_small(ShmWindow& window, std::uint64_t offset, ByteView head, ByteView source,
                          std::uint32_t tag) {
  const std::uint64_t bytes = head.size + source.size;
  if (bytes > kSmallBytes || link_.poisoned()) return false;
  std::byte* const target = window.writable + offset;
  // The receiver read both lines last, so the stores would wait for each in turn.
  fetch_next_cell();
  core::prefetch_for_write(target);
  const InflightWrite inflight(*window.row, window.region_id);
  if (!inflight.open()) return false;
  // Locking drains the store buffer, and the stores of the copy are the slow ones. So the lock is
  // taken before them, and nothing stands between them and the stamp. Copying a page under it takes
  // as long as some ten notifications.
  const core::Lock sending(sending_);
  if (!outbox_.empty() || !producer_.has_room()) return false;
  copy_small(target, head);
  copy_small(target + head.size, source);
  (void)producer_.push(tag, {window.row_index, static_cast<std::uint32_t>(bytes), offset});
  ring_if_asleep();
  copies_.add();
  return true;
}

Completion ShmLane::write(const Operation& operation) {
  if (operation.gpu != nullptr) [[unlikely]]
    return write_on_gpu(operation);
  auto& window = static_cast<ShmWindow&>(*operation.window);
  if (operation.notify &&
      write_small(window, operation.offset, operation.head, operation.source, operation.tag)) {
    return Completion(Status());
  }
  std::byte* const target = window.writable + operation.offset;
  {
    const InflightWrite inflight(*window.row, window.region_id);
    if (!inflight.open()) return Completion(closed_by_owner());
    copy_small(target, operation.head);
    std::byte* const behind_head = target + operation.head.size;
    if (operation.bytes() > kSmallBytes) {
      copy_large(behind_head, window, operation);
    } else {
      copy_small(behind_head, operation.source);
    }
  }
  copies_.add();
  if (!operation.notify) return Completion(Status());
  return push(RecordKind::kNotification, operation);
}

Completion ShmLane::write_on_gpu(const Operation& operation) {
  auto& window = static_cast<ShmWindow&>(*operation.window);
  std::byte* const target = window.writable + operation.offset;
  if (window.gpu == nullptr) window.pin(*operation.gpu);
  {
    const InflightWrite inflight(*window.row, window.region_id);
    if (!inflight.open()) return Completion(closed_by_owner());
    Status copied;
    if (window.gpu == nullptr) {
      if (operation.head.size > 0) std::memcpy(target, operation.head.data, operation.head.size);
    } else {
      copied = gpu::copy(*operation.gpu, target, operation.head.data, operation.head.size, "write");
    }
    if (copied.ok()) {
      copied = gpu::copy(*operation.gpu, target + operation.head.size, operation.source.data,
                         operation.source.size, "write");
    }
    // No notification without its bytes.
    if (!copied.ok()) return Completion(std::move(copied));
  }
  copies_.add();
  if (!operation.notify) return Completion(Status());
  return push(RecordKind::kNotification, operation);
}

void ShmLane::copy_large(std::byte* target, const ShmWindow& window, const Operation& operation) {
  const ByteView source = operation.source;
  const memory::CopyChoice::Plan plan = link_.copy_choice().plan(target, source.size);
  std::chrono::steady_clock::time_point begin;
  if (plan.timed) begin = std::chrono::steady_clock::now();
  if (plan.function != nullptr) {
    plan.function(target, source.data, source.size);
  } else if (operation.notify && announces() && !producer_.receiver_sleeps()) {
    copy_announced(target, window, operation);
  } else {
    std::memcpy(target, source.data, source.size);
  }
  if (plan.timed) link_.copy_choice().took(plan, std::chrono::steady_clock::now() - begin);
}

void ShmLane::copy_announced(std::byte* target, const ShmWindow& window,
                             const Operation& operation) {
  const ByteView source = operation.source;
  for (std::uint64_t at = 0; at < std::min(kAheadBytes, source.size); at += kLineBytes) {
    fetch_line(target + at, source.data + at);
  }
  std::optional<std::uint32_t> announcement;
  {
    const core::Lock lock(sending_);
    if (outbox_.empty()) {
      announcement = producer_.announce({window.row_index, static_cast<std::uint32_t>(source.size),
                                         operation.offset + operation.head.size});
    }
  }
  for (std::uint64_t done = 0; done < source.size;) {
    const std::uint64_t piece = std::min(source.size - done, kPieceBytes);
    copy_piece(target + done, source.data + done, piece, source.size - done);
    done += piece;
    if (announcement) producer_.report(*announcement, static_cast<std::uint32_t>(done));
  }
}

Completion ShmLane::read(const Operation& operation) {
  const std::byte* const source = operation.window->mapped + operation.offset;
  if (operation.gpu != nullptr) [[unlikely]] {
    if (operation.window->gpu == nullptr) {
      static_cast<ShmWindow&>(*operation.window).pin(*operation.gpu);
    }
    Status copied = gpu::copy(*operation.gpu, operation.destination.data, source,
                              operation.destination.size, "read");
    if (!copied.ok()) return Completion(std::move(copied));
  } else {
    copy_bytes(operation.destination.data, source, operation.destination.size);
  }
  copies_.add();
  return Completion(Status());
}

Completion ShmLane::push(RecordKind kind, const Operation& operation) {
  const std::uint32_t tag = operation.tag;
  // The bytes of a write have landed.
  const ByteView payload = kind == RecordKind::kNotification ? ByteView() : operation.source;
  fetch_next_cell();
  core::Lock lock(sending_);
  if (outbox_.empty()) [[likely]] {
    const RingProducer::PushResult pushed = producer_.push(kind, tag, payload);
    if (pushed == RingProducer::PushResult::kPushed) [[likely]] {
      ring_if_asleep();
      return Completion(Status());
    }
    if (pushed == RingProducer::PushResult::kCorrupt) {
      lock.unlock();
      const Status reason = corrupt_ring();
      link_.poison(reason, /*dead=*/false);
      return Completion(reason);
    }
  }
  // Since post() looked: end() has emptied the outbox already.
  if (link_.poisoned()) return Completion(link_.reason());
  Unsent record{kind, tag, {}, {}};
  const Status copied =
      core::with_memory({"send", link_.peer_name(), "shm"}, "a message that waits",
                        [&] { record.payload.assign(payload.data, payload.data + payload.size); });
  if (!copied.ok()) return Completion(copied);
  return outbox_.hold_pending(std::move(record), {payload.size, 0, tag, operation.accepted});
}

bool ShmLane::drain_outbox() {
  std::vector<std::shared_ptr<core::CompletionState>> pushed;
  RingProducer::PushResult last = RingProducer::PushResult::kPushed;
  const auto goes = [&](const Unsent& record) FW_REQUIRES(sending_) {
    last = producer_.push(record.kind, record.tag, {record.payload.data(), record.payload.size()});
    return last == RingProducer::PushResult::kPushed;
  };
  {
    const core::Lock lock(sending_);
    while (auto record = outbox_.next(goes)) pushed.push_back(std::move(record->completion));
    if (!pushed.empty()) ring_if_asleep();
  }
  for (const auto& completion : pushed) completion->finish(Status());
  if (last == RingProducer::PushResult::kCorrupt) link_.poison(corrupt_ring(), /*dead=*/false);
  return last == RingProducer::PushResult::kFull;
}

void ShmLane::ring_if_asleep() {
  if (!producer_.take_wake_request()) return;
  ring(peer_doorbell_);
  doorbells_.add();
}

Progress ShmLane::poll(EventSink& sink) {
  Progress progress;
  if (polling_.test_and_set(std::memory_order_acquire)) {
    // The other thread may have looked before the record was there, and no doorbell announces the
    // room that it waits for.
    progress.pending = outbox_waits();
    return progress;
  }
  RingRecord record;
  RingConsumer::PopResult popped = RingConsumer::PopResult::kEmpty;
  while (!corrupt_.load() && progress.delivered < kPollBatch &&
         (popped = consumer_.pop(record)) == RingConsumer::PopResult::kRecord) {
    ++progress.delivered;
    if (record.kind == RecordKind::kCopying) {
      follow(record);
      continue;
    }
    if (record.landing.bytes != 0) landed_.take(link_.grants().hinted(record.landing));
    ReceivedNotification received{{record.tag, index_, std::move(record.payload), {}},
                                  record.kind == RecordKind::kRecord};
    std::move(received).deliver(sink);
  }
  const bool refused = popped == RingConsumer::PopResult::kNoMemory;
  const bool over = refused || popped == RingConsumer::PopResult::kCorrupt;
  if (over) corrupt_.store(true);
  progress.drained = corrupt_.load() || popped == RingConsumer::PopResult::kEmpty;
  progress.pending = progress.delivered == kPollBatch;
  // Before another thread may find the lane drained: what is pushed here has ended by then.
  if (!over && outbox_waits() && drain_outbox()) {
    progress.pending = true;
  }
  polling_.clear(std::memory_order_release);
  if (over) [[unlikely]] {
    link_.poison(
        refused ? core::no_memory({"take a notification", link_.peer_name(), "shm"},
                                  "a message of the peer")
                : link_.error(StatusCode::kProtocolError, "take a notification",
                              "the peer put a malformed record into the ring", "restart the peer"),
        /*dead=*/false);
  }
  return progress;
}

bool ShmLane::take_bare(int looks, const std::atomic<std::size_t>& queued, std::uint32_t& tag) {
  // Taken before the looks: behind the last one stands nothing that waits for another processor.
  if (polling_.test_and_set(std::memory_order_acquire)) return false;
  bool taken = false;
  // Another thread that polled may have put what it popped into the queue, until it let go.
  if (queued.load() == 0 && !corrupt_.load() && !outbox_waits()) {
    while (consumer_.empty() && --looks > 0) {
      landed_.fetch_expected();
      core::cpu_relax();
    }
    LandingHint landing;
    taken = consumer_.pop_bare(tag, landing);
    if (taken && landing.bytes != 0) landed_.take(link_.grants().hinted(landing));
  }
  polling_.clear(std::memory_order_release);
  return taken;
}

void ShmLane::follow(const RingRecord& announcement) {
  const LandingHint& landing = announcement.landing;
  if (landing.bytes > kAnnouncedBytes) return;
  std::uint32_t fetched = 0;
  for (int looks = 0; looks < kLooks && fetched < landing.bytes && consumer_.empty(); ++looks) {
    const std::uint32_t copied = std::min(consumer_.copied(announcement.tag), landing.bytes);
    // Less than a piece is no progress, but at the end: a peer must not hold this thread for long.
    if (copied < landing.bytes && copied < fetched + kPieceBytes) {
      core::cpu_relax();
      continue;
    }
    const ByteView piece =
        link_.grants().hinted({landing.row, copied - fetched, landing.offset + fetched});
    core::prefetch_for_read(piece.data, piece.size);
    fetched = copied;
    looks = 0;
  }
}

Doorbell ShmLane::arm() {
  Doorbell doorbell{own_doorbell_.get(), false};
  if (polling_.test_and_set(std::memory_order_acquire)) {
    doorbell.ready = true;  // another thread is taking what is there
    return doorbell;
  }
  // Earlier rings first: what they announced is in the ring, and looked at below. Only here, never
  // in poll(), or one thread's poll would take another one's wake-up away.
  silence(own_doorbell_);
  doorbell.ready = !may_sleep();
  polling_.clear(std::memory_order_release);
  return doorbell;
}

bool ShmLane::may_sleep() {
  consumer_.request_wake();
  if (corrupt_.load() || consumer_.empty()) return true;
  consumer_.withdraw_wake_request();
  return false;
}

void ShmLane::disarm() {
  if (polling_.test_and_set(std::memory_order_acquire)) return;
  consumer_.withdraw_wake_request();
  polling_.clear(std::memory_order_release);
}

bool ShmLane::rearm() {
  if (polling_.test_and_set(std::memory_order_acquire)) return false;
  const bool quiet = may_sleep();
  polling_.clear(std::memory_order_release);
  return quiet;
}

void ShmLane::end(const Status& reason) {
  std::vector<std::shared_ptr<core::CompletionState>> dropped;
  {
    const core::Lock lock(sending_);
    while (auto record = outbox_.drop()) dropped.push_back(std::move(record->completion));
  }
  for (const auto& completion : dropped) completion->finish(reason);
}

void ShmLane::ring_own() { ring(own_doorbell_); }

Status ShmLane::closed_by_owner() const {
  return link_.error(StatusCode::kFailedPrecondition, "write", "the memory was closed by its owner",
                     "ask the peer for other memory");
}

Status ShmLane::corrupt_ring() const {
  return link_.error(StatusCode::kProtocolError, "notify", "the peer's ring is corrupt",
                     "restart the peer");
}

}  // namespace farwrite::fabric::shm
