#include "box/segment_reader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "box/held_lease.h"
#include "box/ordered_reads.h"
#include "core/cpu_relax.h"
#include "core/interrupt.h"
#include "core/unchecked_reads.h"
#include "memory/copy.h"

namespace farwrite::box {
namespace {

using Clock = std::chrono::steady_clock;

// Copies of a whole segment that are given up before the server pins it.
constexpr int kSegmentTries = 4;
// How long no chunk of a read may become whole, before the server is asked. A change of one chunk
// takes far less, unless its thread has to wait for a processor.
constexpr std::chrono::nanoseconds kChunkPatience = std::chrono::milliseconds(200);
constexpr std::chrono::nanoseconds kLongestNap = std::chrono::milliseconds(1);
// How long a reader polls while the bytes change, before it lets others run.
constexpr std::chrono::nanoseconds kChangePoll = std::chrono::microseconds(20);
// A change of a small segment is over in this time; for a longer one the server is asked.
constexpr std::chrono::nanoseconds kPatience = std::chrono::microseconds(200);
// Between hosts, a run of so many chunks costs a few round trips.
constexpr std::uint64_t kRemoteGroup = 16;
// Up to so many bytes are read from the buffer that was current last time, in the hope that it
// still is: a round trip takes longer than they do.
constexpr std::uint64_t kGuessedBytes = 64 << 10;

// Waits a moment for a change to end: polls first, then sleeps. False once patience is over.
class Pause {
 public:
  bool more() {
    const auto waited = Clock::now() - begin_;
    if (waited > kPatience) return false;
    if (waited < kChangePoll) {
      core::cpu_relax();
    } else {
      std::this_thread::sleep_for(kChangePoll);
    }
    return true;
  }

 private:
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

Status SegmentReader::fetch(const SegmentState::BufferRow& row, MutableByteView out,
                            std::uint64_t offset) {
  const Result<SegmentState::MappedBuffer> buffer = segment_.buffer(row.number, deadline_);
  if (!buffer.ok()) return buffer.status();
  const SegmentState::MappedBuffer& source = buffer.value();
  if (source.alias.data() != nullptr) {
    const core::UncheckedReads unchecked(true);  // the stamps show whether they changed
    copy_bytes(out.data, source.alias.data() + offset, out.size);
    std::atomic_thread_fence(std::memory_order_acquire);
    return Status();
  }
  return segment_.fetch(out, source.region, offset, deadline_, owner_);
}

Result<SegmentReader::Try> SegmentReader::try_apart(MutableByteView out, std::uint64_t offset) {
  const Result<SegmentState::BufferRow> before = segment_.current_row(deadline_);
  if (!before.ok()) return before.status();
  const SegmentState::BufferRow& found = before.value();
  if (SegmentLayout::changing(found.stamp)) return Try::kChanging;
  if (Status status = fetch(found, out, offset); !status.ok()) {
    if (status.code() != StatusCode::kNotFound) return status;
    FARWRITE_RETURN_IF_ERROR(segment_.check_open());
    return Try::kMoved;
  }
  const Result<SegmentState::BufferRow> after = segment_.row_at(found.index, deadline_);
  if (!after.ok()) return after.status();
  if (!found.same_as(after.value())) return Try::kTorn;
  set_version(found.id());
  return Try::kWhole;
}

Result<SegmentReader::Try> SegmentReader::try_at_once(MutableByteView out, std::uint64_t offset) {
  const Result<bool> begun = begin_at_once(out.size);
  if (!begun.ok()) return begun.status();
  if (!begun.value()) return Try::kMoved;
  const SegmentState::BufferRow where = row_;
  if (out.size > kGuessedBytes && SegmentLayout::changing(where.stamp)) return Try::kChanging;
  OrderedReads reads(*segment_.client());
  const std::uint64_t* const head = reads.add(state_, 0, SegmentLayout::kHeadBytes / 8);
  reads.add(buffer_, offset, out, owner_);
  const std::uint64_t stamp_at = SegmentLayout::stamp_at(where.index);
  const std::uint64_t* const again = reads.add(state_, stamp_at, SegmentLayout::kRowBytes / 8);
  FARWRITE_RETURN_IF_ERROR(reads.wait(segment_.client()->answer_by(deadline_, out.size)));
  const auto before = SegmentState::BufferRow::of(where.index, head + stamp_at / 8);
  const auto after = SegmentState::BufferRow::of(where.index, again);
  const bool was_seen = seen_;
  const Result<bool> current = end_at_once(head, where);
  if (!current.ok()) return current.status();
  const bool changing = SegmentLayout::changing(before.stamp);
  // A row that was current in this call counts with the stamp that it had then: a later one may be
  // of a version that is not published yet.
  if (!current.value() && (!was_seen || changing || before.stamp != where.stamp))
    return Try::kMoved;
  if (changing) return Try::kChanging;
  if (before.number != where.number || !before.same_as(after)) return Try::kTorn;
  set_version(before.id());
  return Try::kWhole;
}

Result<bool> SegmentReader::begin_at_once(std::uint64_t bytes) {
  const bool guesses = bytes <= kGuessedBytes;
  if (!seen_ && guesses) row_ = segment_.last_row();
  // So many bytes of a buffer that changes would move for nothing.
  if (row_.number == 0 || (!guesses && SegmentLayout::changing(row_.stamp))) {
    const Result<SegmentState::BufferRow> current = segment_.current_row(deadline_);
    if (!current.ok()) return current.status();
    row_ = current.value();
    seen_ = true;
  }
  const Result<SegmentState::MappedBuffer> buffer = segment_.buffer(row_.number, deadline_);
  if (!buffer.ok()) {
    if (buffer.status().code() != StatusCode::kNotFound) return buffer.status();
    FARWRITE_RETURN_IF_ERROR(segment_.check_open());
    segment_.set_last_row({});
    row_ = {};
    seen_ = false;
    return false;
  }
  buffer_ = buffer.value().region;
  const Result<RemoteRegion> state = segment_.state_region();
  if (!state.ok()) return state.status();
  state_ = state.value();
  return true;
}

Result<bool> SegmentReader::end_at_once(const std::uint64_t* head,
                                        const SegmentState::BufferRow& where) {
  const Result<SegmentState::BufferRow> current = segment_.current_row_in(head);
  if (!current.ok()) return current.status();
  row_ = current.value();
  seen_ = true;
  segment_.set_last_row(row_);
  return row_.index == where.index && row_.number == where.number;
}

Result<bool> SegmentReader::read_segment(MutableByteView out, std::uint64_t offset) {
  Pause pause;
  for (int tries = 0; tries < kSegmentTries;) {
    const Result<Try> tried = at_once_ ? try_at_once(out, offset) : try_apart(out, offset);
    if (!tried.ok()) return tried.status();
    switch (tried.value()) {
      case Try::kWhole:
        return true;
      case Try::kChanging:
        if (!pause.more()) return false;
        continue;
      case Try::kTorn:
        ++result_.retries;
        break;
      case Try::kMoved:
        break;
    }
    ++tries;
  }
  return false;
}

Result<bool> SegmentReader::read_chunks(MutableByteView out, std::uint64_t offset) {
  if (!at_once_) {
    const Result<VersionId> version = segment_.id(deadline_);
    if (!version.ok()) return version.status();
    set_version(version.value());
  }
  const std::uint64_t first = offset / kChunkBytes;
  const std::uint64_t end = (offset + out.size + kChunkBytes - 1) / kChunkBytes;
  const std::uint64_t most = segment_.maps() ? 1 : kRemoteGroup;
  // A chunk that changes is left for the next round, so that the reader does not walk beside the
  // change and meet it in every chunk.
  std::vector<bool> missing(end - first, true);
  Clock::time_point progress = Clock::now();
  for (std::chrono::nanoseconds nap = kChangePoll;; nap = std::min(2 * nap, kLongestNap)) {
    std::uint64_t left = 0;
    for (std::uint64_t chunk = 0; chunk < missing.size();) {
      if (!missing[chunk]) {
        ++chunk;
        continue;
      }
      std::uint64_t count = 1;
      while (count < most && chunk + count < missing.size() && missing[chunk + count]) ++count;
      const Result<std::uint64_t> failed = read_run(out, offset, first + chunk, count, missing);
      if (!failed.ok()) return failed.status();
      if (failed.value() < count) progress = Clock::now();
      left += failed.value();
      chunk += count;
    }
    if (left == 0) return true;
    if (Clock::now() - progress > kChunkPatience || core::Interrupt::ends_wait()) return false;
    std::this_thread::sleep_for(nap);
  }
}

Result<std::uint64_t> SegmentReader::read_run(MutableByteView out, std::uint64_t offset,
                                              std::uint64_t chunk, std::uint64_t count,
                                              std::vector<bool>& missing) {
  const std::uint64_t begin = std::max(offset, chunk * kChunkBytes);
  const std::uint64_t end =
      std::min<std::uint64_t>(offset + out.size, (chunk + count) * kChunkBytes);
  const MutableByteView piece(out.data + (begin - offset), static_cast<std::size_t>(end - begin));
  std::uint64_t before[kRemoteGroup];
  std::uint64_t after[kRemoteGroup];
  const Result<bool> read = at_once_ ? take_run_at_once(piece, begin, chunk, count, before, after)
                                     : take_run_apart(piece, begin, chunk, count, before, after);
  if (!read.ok()) return read.status();
  if (!read.value()) return count;
  std::uint64_t failed = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const bool whole = !SegmentLayout::changing(before[i]) && after[i] == before[i];
    missing[chunk - offset / kChunkBytes + i] = !whole;
    if (!whole) ++failed;
  }
  result_.retries += static_cast<std::uint32_t>(failed);
  return failed;
}

Result<bool> SegmentReader::take_run_apart(MutableByteView piece, std::uint64_t begin,
                                           std::uint64_t chunk, std::uint64_t count,
                                           std::uint64_t* before, std::uint64_t* after) {
  const Result<SegmentState::BufferRow> found = segment_.current_row(deadline_);
  if (!found.ok()) return found.status();
  const SegmentState::BufferRow& where = found.value();
  const std::uint64_t stamps = SegmentLayout::chunk_at(segment_.info().bytes, where.index, chunk);
  FARWRITE_RETURN_IF_ERROR(segment_.load(stamps, before, count, deadline_));
  if (std::all_of(before, before + count, SegmentLayout::changing)) return false;
  if (Status status = fetch(where, piece, begin); !status.ok()) {
    if (status.code() != StatusCode::kNotFound) return status;
    FARWRITE_RETURN_IF_ERROR(segment_.check_open());
    return false;
  }
  // A row whose buffer was replaced and filled meanwhile may have the same stamps again.
  std::uint64_t number = 0;
  FARWRITE_RETURN_IF_ERROR(segment_.load(stamps, after, count, deadline_));
  FARWRITE_RETURN_IF_ERROR(
      segment_.load(SegmentLayout::buffer_at(where.index), &number, 1, deadline_));
  return number == where.number;
}

Result<bool> SegmentReader::take_run_at_once(MutableByteView piece, std::uint64_t begin,
                                             std::uint64_t chunk, std::uint64_t count,
                                             std::uint64_t* before, std::uint64_t* after) {
  Result<bool> begun = begin_at_once(piece.size);
  if (!begun.ok() || !begun.value()) return begun;
  const SegmentState::BufferRow where = row_;
  const std::uint64_t stamps = SegmentLayout::chunk_at(segment_.info().bytes, where.index, chunk);
  OrderedReads reads(*segment_.client());
  const std::uint64_t* const head = reads.add(state_, 0, SegmentLayout::kHeadBytes / 8);
  const std::uint64_t* const first = reads.add(state_, stamps, count);
  reads.add(buffer_, begin, piece, owner_);
  const std::uint64_t* const last = reads.add(state_, stamps, count);
  const std::uint64_t* const number = reads.add(state_, SegmentLayout::buffer_at(where.index), 1);
  FARWRITE_RETURN_IF_ERROR(reads.wait(segment_.client()->answer_by(deadline_, piece.size)));
  // No chunk of the read is older than the state before its first run.
  if (!std::exchange(dated_, true)) {
    set_version({.epoch = head[SegmentLayout::kEpochAt / 8],
                 .version = head[SegmentLayout::kVersionAt / 8]});
  }
  std::copy_n(first, count, before);
  std::copy_n(last, count, after);
  const bool was_seen = seen_;
  const Result<bool> current = end_at_once(head, where);
  if (!current.ok()) return current.status();
  if (!current.value() && !was_seen) return false;
  return head[SegmentLayout::buffer_at(where.index) / 8] == where.number && *number == where.number;
}

Status SegmentReader::read_leased(MutableByteView out, std::uint64_t offset) {
  const Result<std::shared_ptr<HeldLease>> lease = HeldLease::take(
      segment_.shared_from_this(), segment_.client()->answer_by(deadline_).remaining());
  if (!lease.ok()) return lease.status();
  set_version(lease.value()->id());
  result_.leased = true;
  return lease.value()->read(out, offset, deadline_, owner_);
}

Status SegmentReader::read_range(MutableByteView out, std::uint64_t offset,
                                 Consistency consistency) {
  const core::Deadline give_up = segment_.client()->answer_by(deadline_);
  while (true) {
    const Result<bool> whole =
        consistency == Consistency::kChunk ? read_chunks(out, offset) : read_segment(out, offset);
    if (!whole.ok()) return whole.status();
    if (whole.value()) return Status();
    Status leased = read_leased(out, offset);
    if (leased.code() != StatusCode::kResourceExhausted) return leased;
    // Other leases take every buffer. Those of other reads end soon.
    if (give_up.expired() || core::Interrupt::ends_wait()) return leased;
    std::this_thread::sleep_for(kLongestNap);
  }
}

Result<ReadResult> SegmentReader::read(MutableByteView out, std::uint64_t offset,
                                       Consistency consistency) {
  if (out.size > 0) {
    // Large memory without an owner gets bytes only from a server that has just answered, and large
    // chunks are read only where they do not change.
    at_once_ =
        !segment_.maps() && segment_.client()->channel().reads_in_order() &&
        (out.size <= kGuessedBytes || (owner_ != nullptr && consistency == Consistency::kSegment));
    FARWRITE_RETURN_IF_ERROR(read_range(out, offset, consistency));
  } else {
    const Result<VersionId> version = segment_.id(deadline_);
    if (!version.ok()) return version.status();
    set_version(version.value());
  }
  ClientState::ClientCounters& counters = segment_.client()->counters();
  counters.reads.fetch_add(1, std::memory_order_relaxed);
  counters.read_retries.fetch_add(result_.retries, std::memory_order_relaxed);
  if (result_.leased) counters.leased_reads.fetch_add(1, std::memory_order_relaxed);
  return result_;
}

}  // namespace farwrite::box
