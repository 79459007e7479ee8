#include "box/segment_reader.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "box/settled.h"
#include "core/cpu_relax.h"
#include "farwrite/copy.h"

namespace farwrite::box {
namespace {

using Clock = std::chrono::steady_clock;

// Copies of a whole segment that are given up before the server pins it.
constexpr int kSegmentTries = 4;
// Rounds for the pieces of a group that changed meanwhile.
constexpr int kGroupTries = 32;
// How long a reader polls while the bytes change, before it lets others run.
constexpr std::chrono::nanoseconds kPoll = std::chrono::microseconds(20);
// A change of a small segment is over in this time; for a longer one the server is asked.
constexpr std::chrono::nanoseconds kPatience = std::chrono::microseconds(200);
// Between hosts, one group of chunks costs three round trips.
constexpr std::uint64_t kRemoteGroup = 16 * kChunkBytes;

// Waits a moment for a change to end: polls first, then sleeps. False once patience is over.
class Pause {
 public:
  bool more() {
    const auto waited = Clock::now() - begin_;
    if (waited > kPatience) return false;
    if (waited < kPoll) {
      core::cpu_relax();
    } else {
      std::this_thread::sleep_for(kPoll);
    }
    return true;
  }

 private:
  const Clock::time_point begin_ = Clock::now();
};

}  // namespace

Status SegmentReader::fetch(const SegmentState::Place& place, MutableByteView out,
                            std::uint64_t offset) {
  const Result<SegmentState::Buffer> buffer = segment_.buffer(place.number);
  if (!buffer.ok()) return buffer.status();
  const SegmentState::Buffer& source = buffer.value();
  if (source.alias.data() != nullptr) {
    copy_bytes(out.data, source.alias.data() + offset, out.size);
    std::atomic_thread_fence(std::memory_order_acquire);
    return Status();
  }
  return wait_until_settled(segment_.client()->channel().read(out, source.region, offset));
}

Result<bool> SegmentReader::read_segment(MutableByteView out, std::uint64_t offset) {
  Pause pause;
  for (int tries = 0; tries < kSegmentTries;) {
    const Result<SegmentState::Place> before = segment_.place();
    if (!before.ok()) return before.status();
    const SegmentState::Place& found = before.value();
    if (SegmentLayout::changing(found.stamp)) {
      if (!pause.more()) return false;
      continue;
    }
    ++tries;
    if (Status status = fetch(found, out, offset); !status.ok()) {
      if (status.code() != StatusCode::kNotFound) return status;
      FARWRITE_RETURN_IF_ERROR(segment_.check_open());
      continue;
    }
    std::uint64_t after[2] = {};
    FARWRITE_RETURN_IF_ERROR(segment_.load(SegmentLayout::stamp_at(found.slot), after, 2));
    if (after[0] == found.stamp && after[1] == found.number) {
      result_.version = SegmentLayout::version(found.stamp);
      return true;
    }
    ++result_.retries;
  }
  return false;
}

Result<bool> SegmentReader::read_chunks(MutableByteView out, std::uint64_t offset) {
  const Result<std::uint64_t> version = segment_.version();
  if (!version.ok()) return version.status();
  result_.version = version.value();
  const std::uint64_t group = segment_.mapped() != nullptr ? kChunkBytes : kRemoteGroup;
  for (std::uint64_t done = 0; done < out.size;) {
    const std::uint64_t at = offset + done;
    const std::uint64_t end = std::min<std::uint64_t>(offset + out.size, (at / group + 1) * group);
    const Result<bool> whole =
        read_group({out.data + done, static_cast<std::size_t>(end - at)}, at);
    if (!whole.ok() || !whole.value()) return whole;
    done += end - at;
  }
  return true;
}

Result<bool> SegmentReader::read_group(MutableByteView out, std::uint64_t offset) {
  const std::uint64_t first = offset / kChunkBytes;
  const std::size_t count =
      static_cast<std::size_t>((offset + out.size - 1) / kChunkBytes - first + 1);
  std::vector<bool> missing(count, true);
  std::vector<std::uint64_t> before(count);
  std::vector<std::uint64_t> after(count);
  const std::uint64_t bytes = segment_.info().bytes;
  for (int tries = 0; tries < kGroupTries; ++tries) {
    const Result<SegmentState::Place> found = segment_.place();
    if (!found.ok()) return found.status();
    const SegmentState::Place& where = found.value();
    const std::uint64_t stamps = SegmentLayout::chunk_at(bytes, where.slot, first);
    FARWRITE_RETURN_IF_ERROR(segment_.load(stamps, before.data(), count));
    // Pieces that belong together are fetched together.
    for (std::size_t i = 0; i < count;) {
      if (!missing[i] || SegmentLayout::changing(before[i])) {
        ++i;
        continue;
      }
      std::size_t next = i + 1;
      while (next < count && missing[next] && !SegmentLayout::changing(before[next])) ++next;
      const std::uint64_t begin = std::max(offset, (first + i) * kChunkBytes);
      const std::uint64_t end =
          std::min<std::uint64_t>(offset + out.size, (first + next) * kChunkBytes);
      if (Status status =
              fetch(where, {out.data + (begin - offset), std::size_t(end - begin)}, begin);
          !status.ok()) {
        if (status.code() != StatusCode::kNotFound) return status;
        FARWRITE_RETURN_IF_ERROR(segment_.check_open());
        break;
      }
      i = next;
    }
    // A slot whose buffer was replaced meanwhile has other bytes under the same stamps.
    std::uint64_t number = 0;
    FARWRITE_RETURN_IF_ERROR(segment_.load(stamps, after.data(), count));
    FARWRITE_RETURN_IF_ERROR(segment_.load(SegmentLayout::buffer_at(where.slot), &number, 1));
    bool whole = true;
    for (std::size_t i = 0; i < count; ++i) {
      if (!missing[i]) continue;
      missing[i] =
          SegmentLayout::changing(before[i]) || after[i] != before[i] || number != where.number;
      if (missing[i]) {
        whole = false;
        ++result_.retries;
      }
    }
    if (whole) return true;
    if (tries > 0) std::this_thread::sleep_for(kPoll);
  }
  return false;
}

Status SegmentReader::read_leased(MutableByteView out, std::uint64_t offset) {
  const std::shared_ptr<ClientState>& client = segment_.client();
  const Result<ClientState::Answer> answer =
      client->call({.verb = Verb::kLease, .key = segment_.info().key});
  if (!answer.ok()) return answer.status();
  const Reply& lease = answer.value().reply;
  const Result<SegmentState::Buffer> buffer = segment_.buffer(lease.buffer, lease.region);
  Status status = buffer.ok() ? fetch({.number = lease.buffer}, out, offset) : buffer.status();
  client->tell({.verb = Verb::kRelease, .number = lease.number});
  result_.version = lease.version;
  result_.leased = true;
  return status;
}

Result<ReadResult> SegmentReader::read(MutableByteView out, std::uint64_t offset,
                                       Consistency consistency) {
  Result<bool> whole = true;
  if (out.size > 0) {
    whole =
        consistency == Consistency::kChunk ? read_chunks(out, offset) : read_segment(out, offset);
  } else {
    const Result<std::uint64_t> version = segment_.version();
    if (!version.ok()) return version.status();
    result_.version = version.value();
  }
  if (!whole.ok()) return whole.status();
  if (!whole.value()) FARWRITE_RETURN_IF_ERROR(read_leased(out, offset));
  ClientState::Counters& counters = segment_.client()->counters();
  counters.reads.fetch_add(1, std::memory_order_relaxed);
  counters.read_retries.fetch_add(result_.retries, std::memory_order_relaxed);
  if (result_.leased) counters.leased_reads.fetch_add(1, std::memory_order_relaxed);
  return result_;
}

}  // namespace farwrite::box
