#include "stream/outgoing.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "core/fields.h"
#include "core/mutex.h"
#include "memory/copy.h"
#include "stream/data_pattern.h"
#include "stream/data_writer.h"

namespace farwrite::stream {
namespace {

// A slice is lent in so many pieces of a window, so that a window holds several.
constexpr std::uint64_t kPiecesPerWindow = 4;
// The pattern of a frame has 32-bit lengths.
constexpr std::uint64_t kMostLent = std::uint64_t{1} << 30;

// Slices of one buffer often have one.
bool same_owner(const std::shared_ptr<const void>& one, const std::shared_ptr<const void>& other) {
  return !one.owner_before(other) && !other.owner_before(one);
}

// Takes `bytes` off the front.
Slice split(Slice& slice, std::uint64_t bytes) {
  const auto size = static_cast<std::size_t>(bytes);
  Slice front = {.bytes = {slice.bytes.data, size}, .owner = slice.owner};
  slice.bytes = {slice.bytes.data + size, slice.bytes.size - size};
  return front;
}

}  // namespace

void Outgoing::write(std::vector<Slice> slices, Stream::OnDone done) {
  const Status status = queue(std::move(slices), done, false);
  if (status.ok()) return pump();
  if (done) done(status);
}

void Outgoing::finish(Stream::OnDone done) {
  const Status status = queue({}, done, true);
  if (status.ok()) return pump();
  if (done) done(status);
}

Status Outgoing::queue(std::vector<Slice> slices, Stream::OnDone& done, bool end) {
  const core::Lock lock(mutex_);
  if (!failed_.ok()) return failed_;
  if (ending_) {
    return Status::error(StatusCode::kFailedPrecondition, {.operation = "write to a stream"},
                         "this direction was finished", "write before finish()");
  }
  if (end) {
    ending_ = true;
    finished_ = std::move(done);
    return Status();
  }
  for (Slice& slice : slices) {
    if (slice.bytes.size == 0) continue;
    written_ += slice.bytes.size;
    waiting_.push_back(std::move(slice));
  }
  writes_.push_back({.end = written_, .done = std::move(done)});
  return Status();
}

bool Outgoing::add_credit(std::uint64_t bytes) {
  {
    const core::Lock lock(mutex_);
    if (bytes > options_.message_window - credit_) return false;
    credit_ += bytes;
  }
  pump();
  return true;
}

bool Outgoing::taken() {
  Stream::OnDone finished;
  {
    const core::Lock lock(mutex_);
    if (!end_sent_ || taken_) return false;
    taken_ = true;
    if (failed_.ok()) finished = std::exchange(finished_, nullptr);
  }
  if (finished) finished(Status());
  return true;
}

bool Outgoing::complete() const {
  const core::Lock lock(mutex_);
  return taken_ && failed_.ok();
}

void Outgoing::fail(const Status& reason) {
  std::deque<Slice> dropped;  // owners go without the lock
  std::deque<Write> writes;
  Stream::OnDone finished;
  {
    const core::Lock lock(mutex_);
    if (!failed_.ok()) return;
    failed_ = reason;
    dropped.swap(waiting_);
    writes.swap(writes_);
    finished = std::exchange(finished_, nullptr);
  }
  for (const Write& write : writes) {
    if (write.done) write.done(reason);
  }
  if (finished) finished(reason);
}

void Outgoing::pump() {
  pumping_.run([&] {
    NextFrame step;
    while (next(step)) {
      if (step.kind == FrameKind::kBegin) {
        send_begin();
      } else if (step.kind == FrameKind::kEnd) {
        link_->tell({.kind = FrameKind::kEnd, .stream = number_});
      } else {
        send_data(step);
      }
      step = NextFrame();
    }
    end_writes();
  });
}

bool Outgoing::next(NextFrame& step) {
  const core::Lock lock(mutex_);
  if (!failed_.ok()) return false;
  if (waiting_.empty() && (!ending_ || end_sent_)) return false;
  if (!begun_) {
    begun_ = true;
    step.kind = FrameKind::kBegin;
    return true;
  }
  if (waiting_.empty()) {
    end_sent_ = true;
    step.kind = FrameKind::kEnd;
    return true;
  }
  const bool pays = credit_ > kFrameCredit;
  if (pays) credit_ -= kFrameCredit;
  bool more = pays;
  while (more && !waiting_.empty()) {
    const bool lends =
        waiting_.front().bytes.size >= options_.lend_from && by_message_ == 0 && !no_lends_;
    more = lends ? gather_lent(step) : gather_inline(step);
  }
  if (!step.parts.empty()) return true;
  if (pays) credit_ += kFrameCredit;
  link_->counters().waits.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool Outgoing::gather_lent(NextFrame& step) {
  const ByteView front = waiting_.front().bytes;
  const bool staged = !link_->device().contains(front);
  const std::uint64_t piece =
      std::min(std::max(options_.window / kPiecesPerWindow, options_.lend_from), kMostLent);
  const std::uint64_t most = staged ? std::min(piece, options_.chunk) : piece;
  const std::uint64_t bytes = std::min<std::uint64_t>(front.size, most);
  if (lent_ > 0 && lent_ + bytes > options_.window) return false;
  if (step.region.size == 0) {
    step.staged = staged;
    step.region.data = front.data;
  } else if (staged != step.staged || step.region.size + front.size > most ||
             (!staged && !extends(step.region, front))) {
    return false;
  }
  lent_ += bytes;
  step.region.size += static_cast<std::size_t>(bytes);
  if (step.parts.empty()) step.payload += DataPattern::kPairBytes;
  add_part(step, bytes, true);
  return true;
}

bool Outgoing::gather_inline(NextFrame& step) {
  const bool new_pair = step.parts.empty() || step.parts.back().lent;
  const std::uint64_t payload = step.payload + (new_pair ? DataPattern::kPairBytes : 0);
  if (payload >= most_payload() || credit_ == 0) return false;
  const std::uint64_t most = std::min(most_payload() - payload, credit_);
  std::uint64_t bytes = std::min<std::uint64_t>(waiting_.front().bytes.size, most);
  if (by_message_ > 0) bytes = std::min(bytes, by_message_);
  by_message_ -= std::min(by_message_, bytes);
  credit_ -= bytes;
  step.inline_bytes += bytes;
  step.payload = payload + bytes;
  add_part(step, bytes, false);
  return true;
}

void Outgoing::add_part(NextFrame& step, std::uint64_t bytes, bool lent) {
  Slice& front = waiting_.front();
  step.parts.push_back({.slice = split(front, bytes), .lent = lent});
  if (front.bytes.size == 0) waiting_.pop_front();
  sent_ += bytes;
}

bool Outgoing::extends(ByteView region, ByteView memory) {
  // Segments may lie side by side, and a lend reaches into one.
  return region.data + region.size == memory.data &&
         link_->device().contains({region.data, region.size + memory.size});
}

void Outgoing::send_begin() {
  std::vector<std::byte> message =
      StreamFrame{.kind = FrameKind::kBegin, .stream = number_, .value = options_.window}.head();
  const auto rest = core::to_array<8>(options_.message_window);
  message.insert(message.end(), rest.begin(), rest.end());
  tell(message);
}

void Outgoing::tell(const std::vector<std::byte>& message) {
  const Status over =
      link_->channel().tell({message.data(), message.size()}, 0, link_->lane(number_));
  if (!over.ok()) fail(over);
}

void Outgoing::send_data(NextFrame& step) {
  DataWriter writer(number_, step.payload);
  for (const FramePart& part : step.parts) {
    if (part.lent) {
      writer.lend(part.slice.bytes.size);
    } else {
      writer.copy(part.slice.bytes);
    }
  }
  const std::vector<std::byte> message = writer.take();
  count(step, true);  // before the peer or the writer can know of it
  if (step.region.size == 0) return tell(message);
  const Completion sent = lend({message.data(), message.size()}, step);
  if (!sent.done()) return;
  if (const Status status = sent.wait(); !status.ok()) {
    count(step, false);
    not_lent(step, status);
  }
}

void Outgoing::count(const NextFrame& step, bool sent) {
  const auto change = [sent](std::atomic<std::uint64_t>& counter, std::uint64_t by) {
    sent ? counter.fetch_add(by, std::memory_order_relaxed)
         : counter.fetch_sub(by, std::memory_order_relaxed);
  };
  StreamLink::StreamCounters& counters = link_->counters();
  change(counters.messages, step.inline_bytes > 0 ? 1 : 0);
  change(counters.message_bytes, step.inline_bytes);
  change(counters.lent, step.region.size > 0 ? 1 : 0);
  change(counters.lent_bytes, step.region.size);
  change(counters.staged_bytes, step.staged ? step.region.size : 0);
}

Completion Outgoing::lend(ByteView message, const NextFrame& step) {
  ByteView region = step.region;
  std::vector<std::shared_ptr<const void>> owners;  // kept until the region is returned
  if (step.staged) {
    Result<StreamLink::StreamBuffer> copy = link_->buffer(region.size, true);
    region.data = copy.ok() ? copy->data : nullptr;
    if (!copy.ok() || !link_->device().contains(region)) {
      return Completion(Status(StatusCode::kResourceExhausted, "no memory to lend"));
    }
    owners.push_back(copy->owner);
    std::byte* to = copy->data;
    for (const FramePart& part : step.parts) {
      if (!part.lent) continue;
      copy_bytes(to, part.slice.bytes.data, part.slice.bytes.size);
      to += part.slice.bytes.size;
    }
  }
  for (const FramePart& part : step.parts) {
    if (!part.lent || step.staged) continue;
    if (owners.empty() || !same_owner(owners.back(), part.slice.owner)) {
      owners.push_back(part.slice.owner);
    }
  }
  return link_->channel().lend(
      message, region,
      [weak = weak_from_this(), owners = std::move(owners), bytes = region.size]() mutable {
        owners.clear();  // the room that they leave is what waiting bytes may need
        if (const auto self = weak.lock()) self->returned(bytes);
      },
      0, link_->lane(number_));
}

void Outgoing::not_lent(NextFrame& step, const Status& status) {
  const bool full = status.code() == StatusCode::kResourceExhausted;
  if (!full && status.code() != StatusCode::kUnsupported) return fail(status);
  const core::Lock lock(mutex_);
  if (!failed_.ok()) return;
  const std::uint64_t bytes = step.inline_bytes + step.region.size;
  lent_ -= step.region.size;
  credit_ += step.inline_bytes + kFrameCredit;
  sent_ -= bytes;
  for (auto part = step.parts.rbegin(); part != step.parts.rend(); ++part) {
    waiting_.push_front(std::move(part->slice));
  }
  no_lends_ = no_lends_ || !full;
  // While something is lent, its return makes room and asks again; but messages get on as well.
  by_message_ = bytes;
}

void Outgoing::returned(std::uint64_t bytes) {
  {
    const core::Lock lock(mutex_);
    lent_ -= bytes;
  }
  pump();
}

void Outgoing::end_writes() {
  std::vector<Write> done;
  {
    const core::Lock lock(mutex_);
    while (!writes_.empty() && writes_.front().end <= sent_ + options_.write_bound) {
      done.push_back(std::move(writes_.front()));
      writes_.pop_front();
    }
  }
  for (const Write& write : done) {
    if (write.done) write.done(Status());
  }
}

}  // namespace farwrite::stream
