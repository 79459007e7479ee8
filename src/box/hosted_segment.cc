#include "box/hosted_segment.h"

#include <algorithm>
#include <string>
#include <utility>

#include "box/arithmetic.h"
#include "box/epoch.h"
#include "core/mutex.h"
#include "memory/copy.h"

namespace farwrite::box {
namespace {

constexpr std::string_view kChange = "change a segment";

// The chunks of [offset, offset + length), each with the part of the range that is its.
struct ChunkRange {
  std::uint64_t chunk = 0;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

ChunkRange piece_of(std::uint64_t chunk, std::uint64_t offset, std::uint64_t length) {
  return {.chunk = chunk,
          .begin = std::max(offset, chunk * kChunkBytes),
          .end = std::min(offset + length, (chunk + 1) * kChunkBytes)};
}

// Locks the change mutexes of all segments of one change; a segment may come several times.
class ChangeLock {
 public:
  explicit ChangeLock(std::vector<core::Mutex*> mutexes) : mutexes_(std::move(mutexes)) {
    std::erase(mutexes_, nullptr);
    std::sort(mutexes_.begin(), mutexes_.end());
    mutexes_.erase(std::unique(mutexes_.begin(), mutexes_.end()), mutexes_.end());
    for (core::Mutex* mutex : mutexes_) mutex->lock();
  }
  ~ChangeLock() {
    for (auto mutex = mutexes_.rbegin(); mutex != mutexes_.rend(); ++mutex) (*mutex)->unlock();
  }
  ChangeLock(const ChangeLock&) = delete;
  ChangeLock& operator=(const ChangeLock&) = delete;

 private:
  std::vector<core::Mutex*> mutexes_;
};

bool overlap(std::uint64_t a, std::uint64_t b, std::uint64_t length) {
  return a != b && a < b + length && b < a + length;
}

bool reached(const VersionId& wanted, const VersionId& now) {
  return now.version >= wanted.version || (wanted.epoch != 0 && wanted.epoch != now.epoch);
}

}  // namespace

Result<std::shared_ptr<HostedSegment>> HostedSegment::create(const Device& device, SegmentSpec spec,
                                                             std::uint64_t key,
                                                             const VersionId& id) {
  const Result<std::uint64_t> bytes = checked_bytes(spec);
  if (!bytes.ok()) return bytes.status();
  Result<BufferSet> buffers = BufferSet::create(device, bytes.value(), spec.buffers, id);
  if (!buffers.ok()) return buffers.status();
  return std::shared_ptr<HostedSegment>(
      new HostedSegment(std::move(spec), key, *std::move(buffers)));
}

VersionId HostedSegment::id() const {
  const core::Lock lock(mutex_);
  return buffers_.id();
}

std::chrono::nanoseconds HostedSegment::age() const {
  const core::Lock lock(mutex_);
  return std::chrono::steady_clock::now() - changed_at_;
}

Result<MemoryRegion> HostedSegment::buffer(std::uint64_t number) const {
  const core::Lock lock(mutex_);
  if (freed_) return gone();
  return buffers_.buffer(number);
}

std::uint64_t HostedSegment::buffer_number(std::uint32_t row) const {
  const core::Lock lock(mutex_);
  return buffers_.number(row);
}

std::uint64_t HostedSegment::allocated() const {
  const core::Lock lock(mutex_);
  return buffers_.allocated();
}

Status HostedSegment::gone() const {
  return Status::error(StatusCode::kNotFound, {.operation = kChange},
                       "the segment '" + spec_.name + "' was freed",
                       "attach or create a segment of that name again");
}

Status HostedSegment::check_range(std::uint64_t offset, std::uint64_t length,
                                  std::string_view what) const {
  const std::uint64_t item = bytes_of(spec_.type);
  if (offset % item != 0 || length % item != 0) {
    return Status::error(StatusCode::kInvalidArgument, {.operation = kChange},
                         std::string(what) + " at " + std::to_string(offset) + " + " +
                             std::to_string(length) + " bytes splits an element of " +
                             std::to_string(item) + " bytes",
                         "use multiples of the element size");
  }
  if (offset > bytes_ || length > bytes_ - offset) {
    return Status::error(StatusCode::kOutOfRange, {.operation = kChange},
                         std::string(what) + " at " + std::to_string(offset) + " + " +
                             std::to_string(length) + " bytes ends past the " +
                             std::to_string(bytes_) + " bytes of '" + spec_.name + "'",
                         "change a range inside the segment");
  }
  return Status();
}

Status HostedSegment::check(ChangeFields& change) const {
  if (change.operation == Operation::kSignal) change.length = 0;
  if (change.length == Change::kWhole) {
    change.length = bytes_ - std::min(bytes_, change.offset);
  }
  FARWRITE_RETURN_IF_ERROR(check_range(change.offset, change.length, "the destination"));
  switch (change.operation) {
    case Operation::kWrite:
    case Operation::kSwap:
    case Operation::kSignal:
      return Status();
    case Operation::kAccumulate:
    case Operation::kAxpy:
    case Operation::kScale:
    case Operation::kFill:
      break;
  }
  if (spec_.type == ElementType::kBytes) {
    return Status::error(StatusCode::kInvalidArgument, {.operation = kChange},
                         "'" + spec_.name + "' holds bytes, which have no arithmetic",
                         "create the segment with a number type, or write it");
  }
  return check_factor(spec_.type, change.factor);
}

std::optional<std::uint32_t> HostedSegment::draft() {
  do {
    const core::Lock lock(mutex_);
    if (freed_) return std::nullopt;
    // While the current buffer is pinned, the other changes need a spare one as well.
    if (const auto spare = buffers_.take_spare(buffers_.pinned(buffers_.current()))) return spare;
  } while (make_room());
  return std::nullopt;
}

void HostedSegment::drop(std::uint32_t row) {
  const core::Lock lock(mutex_);
  if (buffers_.filling(row)) buffers_.put_back(row);
}

MutableByteView HostedSegment::draft_bytes(std::uint32_t row) const {
  const core::Lock lock(mutex_);
  return {buffers_.data(row), bytes_};
}

Result<HostedSegment::Target> HostedSegment::begin_change(bool whole, bool overwrites) {
  do {
    const core::Lock lock(mutex_);
    const std::uint32_t current = buffers_.current();
    const bool pinned = buffers_.pinned(current);
    Target target = {.row = current, .base = current, .pinned = pinned};
    // Leases wait for a change in place, so one that touches all bytes anyway goes elsewhere.
    if (pinned || (whole && (overwrites || leased_))) {
      if (const std::optional<std::uint32_t> other = buffers_.take_spare()) target.row = *other;
    }
    if (target.fresh() || !pinned) {
      changing_ = target;
      return target;
    }
  } while (make_room());
  return Status::error(
      StatusCode::kResourceExhausted, {.operation = kChange},
      "a lease pins the current version of '" + spec_.name + "', and no other buffer is free",
      kReleaseVersions);
}

void HostedSegment::cancel_change(const Target& target) {
  {
    const core::Lock lock(mutex_);
    if (target.fresh()) buffers_.put_back(target.row);
    changing_.reset();
  }
  changed_.notify_all();
}

VersionId HostedSegment::end_change(std::uint32_t row, bool new_epoch) {
  VersionId id;
  {
    const core::Lock lock(mutex_);
    const std::uint64_t epoch = buffers_.id().epoch;
    id = buffers_.finish(row, new_epoch ? box::new_epoch(epoch) : epoch);
    changed_at_ = std::chrono::steady_clock::now();
    changing_.reset();
  }
  changed_.notify_all();
  return id;
}

void HostedSegment::replace_bytes(const std::byte* from, std::uint32_t row, ParallelLoop& loop) {
  // Nothing reads this buffer yet, so a part may be many chunks: memcpy streams a long one past the
  // caches, which leaves more of the memory's bandwidth to others.
  constexpr std::uint64_t kPartChunks = 32;
  const std::uint64_t chunks = buffers_.chunks();
  loop.run((chunks + kPartChunks - 1) / kPartChunks, [&](std::uint64_t part) {
    const std::uint64_t first = part * kPartChunks;
    const std::uint64_t last = std::min(first + kPartChunks, chunks);
    const std::uint64_t begin = first * kChunkBytes;
    copy_bytes(buffers_.data(row) + begin, from + begin,
               std::min(last * kChunkBytes, bytes_) - begin);
    for (std::uint64_t chunk = first; chunk < last; ++chunk) buffers_.end_chunk(row, chunk, true);
  });
}

void HostedSegment::change_bytes(const ChangeFields& change, const Sources& sources,
                                 const Target& target, ParallelLoop& loop) {
  const std::byte* const x =
      sources.x == nullptr ? sources.memory.data : sources.x->current_bytes() + change.x_offset;
  if (target.fresh() && change.operation == Operation::kWrite && change.length == bytes_) {
    return replace_bytes(x, target.row, loop);
  }
  const std::byte* const y =
      sources.y == nullptr ? nullptr : sources.y->current_bytes() + change.y_offset;
  std::byte* const data = buffers_.data(target.row);
  const std::byte* const base = buffers_.data(target.base);
  // In another buffer, what the range leaves out is copied.
  const std::uint64_t first = target.fresh() ? 0 : change.offset / kChunkBytes;
  const std::uint64_t end = target.fresh() ? bytes_ : change.offset + change.length;
  const std::uint64_t last = (end + kChunkBytes - 1) / kChunkBytes;
  loop.run(last - first, [&](std::uint64_t part) {
    const ChunkRange whole = piece_of(first + part, 0, bytes_);
    const ChunkRange piece = piece_of(first + part, change.offset, change.length);
    const bool changed = piece.begin < piece.end;
    const bool covered = changed && piece.end - piece.begin == whole.end - whole.begin;
    // What the elements were, where a sum can be made straight from there.
    const std::byte* const old =
        covered && target.fresh() && change.operation == Operation::kAccumulate ? base + piece.begin
                                                                                : nullptr;
    const bool keeps_old = !covered || change.operation == Operation::kAccumulate ||
                           change.operation == Operation::kScale;
    buffers_.begin_chunk(target.row, whole.chunk);
    if (target.fresh() && keeps_old && old == nullptr) {
      copy_bytes(data + whole.begin, base + whole.begin, whole.end - whole.begin);
    }
    if (changed) {
      const std::uint64_t inside = piece.begin - change.offset;
      change_elements(change, data + piece.begin, x == nullptr ? nullptr : x + inside,
                      y == nullptr ? old : y + inside, piece.end - piece.begin);
    }
    buffers_.end_chunk(target.row, whole.chunk, changed);
  });
}

// `y` is the second term of kAxpy, and of kAccumulate unless that is `to`.
void HostedSegment::change_elements(const ChangeFields& change, std::byte* to, const std::byte* x,
                                    const std::byte* y, std::uint64_t bytes) const {
  const std::size_t elements = bytes / bytes_of(spec_.type);
  switch (change.operation) {
    case Operation::kWrite:
      return copy_bytes(to, x, bytes);
    case Operation::kAccumulate:
      if (y == nullptr) return accumulate(spec_.type, to, x, change.factor, elements);
      [[fallthrough]];
    case Operation::kAxpy:
      return axpy(spec_.type, to, x, y, change.factor, elements);
    case Operation::kScale:
      return scale(spec_.type, to, change.factor, elements);
    case Operation::kFill:
      return fill(spec_.type, to, change.factor, elements);
    case Operation::kSwap:
    case Operation::kSignal:
      return;
  }
}

Status HostedSegment::swap(const ChangeFields& change, HostedSegment& other, ChangeResult& result,
                           ParallelLoop& loop) {
  Result<Target> mine = begin_change();
  if (!mine.ok()) return mine.status();
  Result<Target> its = other.begin_change();
  if (!its.ok()) {
    cancel_change(mine.value());
    return its.status();
  }
  // Each side gets the other's old bytes. A pinned side is written in another buffer.
  struct Side {
    HostedSegment* segment;
    Target target;
    std::uint64_t offset;
  };
  const Side sides[2] = {{this, mine.value(), change.offset},
                         {&other, its.value(), change.x_offset}};
  for (const Side& side : sides) {
    BufferSet& buffers = side.segment->buffers_;
    buffers.begin(side.target.row);
    if (side.target.fresh()) {
      copy_bytes(buffers.data(side.target.row), buffers.data(side.target.base),
                 side.segment->bytes_);
    }
    for (std::uint64_t chunk = 0; chunk < buffers.chunks(); ++chunk) {
      buffers.begin_chunk(side.target.row, chunk);
    }
  }
  std::byte* const a = buffers_.data(mine->row) + change.offset;
  std::byte* const b = other.buffers_.data(its->row) + change.x_offset;
  loop.run(SegmentLayout::chunks(change.length), [&](std::uint64_t part) {
    const ChunkRange piece = piece_of(part, 0, change.length);
    swap_bytes(a + piece.begin, b + piece.begin, piece.end - piece.begin);
  });
  for (const Side& side : sides) {
    BufferSet& buffers = side.segment->buffers_;
    for (std::uint64_t chunk = 0; chunk < buffers.chunks(); ++chunk) {
      const ChunkRange piece = piece_of(chunk, side.offset, change.length);
      buffers.end_chunk(side.target.row, chunk, piece.begin < piece.end);
    }
    const bool mine_too = side.segment == this;
    const VersionId id = side.segment->end_change(side.target.row, mine_too && change.new_epoch);
    if (mine_too) result.id = id;
  }
  result.switched = mine->fresh();
  result.copied = mine->pinned;
  return Status();
}

Result<HostedSegment::ChangeResult> HostedSegment::apply(const ChangeFields& asked,
                                                         const Sources& sources,
                                                         ParallelLoop& loop) {
  ChangeFields change = asked;
  ChangeResult result;
  const auto give_up = [&](Status status) {
    if (sources.draft.has_value()) drop(*sources.draft);
    return status;
  };
  if (Status status = check(change); !status.ok()) return give_up(std::move(status));
  for (const auto& [source, offset] :
       {std::pair(sources.x.get(), change.x_offset), std::pair(sources.y.get(), change.y_offset)}) {
    if (source == nullptr) continue;
    // No source, but a fence: only that it exists counts.
    if (change.operation == Operation::kWrite && source == sources.y.get()) continue;
    Status status = source->check_range(offset, change.length, "the source");
    if (status.ok() && source->spec_.type != spec_.type) {
      status = Status::error(StatusCode::kInvalidArgument, {.operation = kChange},
                             "'" + source->spec_.name + "' holds " +
                                 std::string(to_string(source->spec_.type)) + " and '" +
                                 spec_.name + "' " + std::string(to_string(spec_.type)),
                             "use segments of one type");
    }
    if (status.ok() && source == this && change.operation == Operation::kSwap) {
      status = Status::error(StatusCode::kInvalidArgument, {.operation = kChange},
                             "'" + spec_.name + "' is both sides of the exchange",
                             "exchange with another segment, or copy through one");
    }
    if (status.ok() && source == this && overlap(offset, change.offset, change.length)) {
      status = Status::error(StatusCode::kInvalidArgument, {.operation = kChange},
                             "the source overlaps the destination", "use ranges that do not");
    }
    if (!status.ok()) return give_up(std::move(status));
  }
  {
    const ChangeLock exclusive({&change_mutex_, sources.x ? &sources.x->change_mutex_ : nullptr,
                                sources.y ? &sources.y->change_mutex_ : nullptr});
    for (const HostedSegment* segment : {this, sources.x.get(), sources.y.get()}) {
      if (segment != nullptr && segment->freed()) return give_up(segment->gone());
    }
    if (change.operation == Operation::kSwap) {
      FARWRITE_RETURN_IF_ERROR(swap(change, *sources.x, result, loop));
    } else if (sources.draft.has_value()) {
      for (std::uint64_t chunk = 0; chunk < buffers_.chunks(); ++chunk) {
        buffers_.end_chunk(*sources.draft, chunk, true);
      }
      result.switched = true;
      result.id = end_change(*sources.draft, change.new_epoch);
    } else if (change.length == 0) {
      // Which disturbs no lease.
      result.id = end_change(buffers_.current(), change.new_epoch);
    } else {
      const bool whole = change.length == bytes_;
      const bool overwrites =
          change.operation == Operation::kWrite || change.operation == Operation::kFill;
      Result<Target> found = begin_change(whole, overwrites);
      if (!found.ok()) return found.status();
      if (!found->fresh()) buffers_.begin(found->row);
      change_bytes(change, sources, found.value(), loop);
      result.switched = found->fresh();
      result.copied = found->pinned && !(whole && overwrites);
      result.id = end_change(found->row, change.new_epoch);
    }
    result.row = buffers_.current();
    result.buffer = buffer_number(result.row);
  }
  result.length = change.length;
  call_waiters(result.id);
  if (change.operation == Operation::kSwap) sources.x->call_waiters(sources.x->id());
  return result;
}

Status HostedSegment::hold_still(
    const std::function<Status(ByteView bytes, const VersionId& id)>& read) {
  const core::Lock change(change_mutex_);
  if (freed()) return gone();
  return read({buffers_.data(buffers_.current()), bytes_}, id());
}

std::uint64_t HostedSegment::wait(const VersionId& wanted, Waiter waiter) {
  core::Lock lock(mutex_);
  const VersionId now = buffers_.id();
  if (freed_ || reached(wanted, now)) {
    const bool was_freed = freed_;
    lock.unlock();
    waiter(was_freed ? Result<VersionId>(gone()) : Result<VersionId>(now));
    return 0;
  }
  waiting_.push_back({.id = next_waiting_, .wanted = wanted, .waiter = std::move(waiter)});
  return next_waiting_++;
}

void HostedSegment::stop_waiting(std::uint64_t id) {
  const core::Lock lock(mutex_);
  std::erase_if(waiting_, [&](const VersionWaiter& waiting) { return waiting.id == id; });
}

void HostedSegment::call_waiters(const VersionId& now) {
  std::vector<VersionWaiter> done;
  {
    const core::Lock lock(mutex_);
    const auto left =
        std::partition(waiting_.begin(), waiting_.end(),
                       [&](const VersionWaiter& waiting) { return !reached(waiting.wanted, now); });
    std::move(left, waiting_.end(), std::back_inserter(done));
    waiting_.erase(left, waiting_.end());
  }
  for (const VersionWaiter& waiting : done) waiting.waiter(now);
}

bool HostedSegment::free() {
  std::vector<VersionWaiter> waiting;
  {
    const core::Lock change(change_mutex_);
    const core::Lock lock(mutex_);
    if (freed_) return false;
    freed_ = true;
    buffers_.free();
    waiting.swap(waiting_);
  }
  for (const VersionWaiter& one : waiting) one.waiter(gone());
  return true;
}

bool HostedSegment::freed() const {
  const core::Lock lock(mutex_);
  return freed_;
}

}  // namespace farwrite::box
