#include "stream/outgoing.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "farwrite/copy.h"

namespace farwrite::stream {
namespace {

// A slice is lent in so many pieces of a window, so that a window holds several.
constexpr std::uint64_t kPiecesPerWindow = 4;

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
  const std::lock_guard lock(mutex_);
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
    const std::lock_guard lock(mutex_);
    if (bytes > options_.message_window - credit_) return false;
    credit_ += bytes;
  }
  pump();
  return true;
}

bool Outgoing::taken() {
  Stream::OnDone finished;
  {
    const std::lock_guard lock(mutex_);
    if (!end_sent_ || taken_) return false;
    taken_ = true;
    if (failed_.ok()) finished = std::exchange(finished_, nullptr);
  }
  if (finished) finished(Status());
  return true;
}

bool Outgoing::complete() const {
  const std::lock_guard lock(mutex_);
  return taken_ && failed_.ok();
}

void Outgoing::fail(const Status& reason) {
  std::deque<Slice> dropped;  // owners go without the lock
  std::deque<Write> writes;
  Stream::OnDone finished;
  {
    const std::lock_guard lock(mutex_);
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
    Step step;
    while (next(step)) {
      if (step.kind == FrameKind::kLent) {
        lend(step);
      } else if (step.kind == FrameKind::kEnd) {
        link_->tell({.kind = FrameKind::kEnd, .stream = number_});
      } else {
        send_message(step);
      }
      step = Step();
    }
    end_writes();
  });
}

bool Outgoing::next(Step& step) {
  const std::lock_guard lock(mutex_);
  if (!failed_.ok()) return false;
  if (waiting_.empty()) {
    if (!ending_ || end_sent_) return false;
    end_sent_ = true;
    step.kind = FrameKind::kEnd;
    return true;
  }
  const bool lends = waiting_.front().bytes.size >= options_.lend_from && by_message_ == 0;
  const bool found = lends && !no_lends_ ? next_lent(step) : next_message(step);
  if (!found) link_->counters().waits.fetch_add(1, std::memory_order_relaxed);
  sent_ += step.bytes;
  return found;
}

bool Outgoing::next_lent(Step& step) {
  Slice& front = waiting_.front();
  Device& device = link_->device();
  step.staged = !device.contains(front.bytes.data) ||
                !device.contains(front.bytes.data + front.bytes.size - 1);
  const std::uint64_t piece = std::max(options_.window / kPiecesPerWindow, options_.lend_from);
  const std::uint64_t most = step.staged ? std::min(piece, options_.chunk) : piece;
  const std::uint64_t bytes = std::min<std::uint64_t>(front.bytes.size, most);
  if (lent_ > 0 && lent_ + bytes > options_.window) return false;
  lent_ += bytes;
  step.kind = FrameKind::kLent;
  step.bytes = bytes;
  step.slices.push_back(split(front, bytes));
  if (front.bytes.size == 0) waiting_.pop_front();
  return true;
}

bool Outgoing::next_message(Step& step) {
  const std::uint64_t most = link_->channel().max_message_bytes() - StreamFrame::kHeadBytes;
  std::uint64_t left = std::min(most, credit_);
  if (left == 0) return false;
  // Short slices are gathered; a long one is here only because it cannot be lent.
  while (!waiting_.empty() && left > 0) {
    Slice& front = waiting_.front();
    const bool lends = front.bytes.size >= options_.lend_from && by_message_ == 0 && !no_lends_;
    if (lends) break;
    std::uint64_t bytes = std::min<std::uint64_t>(front.bytes.size, left);
    if (by_message_ > 0) bytes = std::min(bytes, by_message_);
    by_message_ -= std::min(by_message_, bytes);
    step.slices.push_back(split(front, bytes));
    if (front.bytes.size == 0) waiting_.pop_front();
    step.bytes += bytes;
    left -= bytes;
  }
  credit_ -= step.bytes;
  step.kind = FrameKind::kData;
  return true;
}

void Outgoing::send_message(const Step& step) {
  std::vector<std::byte> message = StreamFrame{.kind = FrameKind::kData, .stream = number_}.head();
  message.reserve(message.size() + static_cast<std::size_t>(step.bytes));
  for (const Slice& slice : step.slices) {
    message.insert(message.end(), slice.bytes.data, slice.bytes.data + slice.bytes.size);
  }
  const Completion sent =
      link_->channel().send({message.data(), message.size()}, 0, link_->lane(number_));
  if (sent.done()) {
    if (const Status status = sent.wait(); !status.ok()) return fail(status);
  }
  link_->counters().messages.fetch_add(1, std::memory_order_relaxed);
  link_->counters().message_bytes.fetch_add(step.bytes, std::memory_order_relaxed);
}

void Outgoing::lend(Step& step) {
  Slice slice = step.slices.front();
  if (step.staged) {
    const StreamLink::Buffer copy = link_->buffer(step.bytes, true);
    if (!link_->device().contains(copy.data)) {
      return not_lent(step, Status(StatusCode::kResourceExhausted, "no memory to lend"));
    }
    copy_bytes(copy.data, slice.bytes.data, slice.bytes.size);
    slice = {.bytes = {copy.data, slice.bytes.size}, .owner = copy.owner};
  }
  const std::vector<std::byte> head =
      StreamFrame{.kind = FrameKind::kLent, .stream = number_}.head();
  const Completion sent = link_->channel().lend(
      {head.data(), head.size()}, slice.bytes,
      [weak = weak_from_this(), owner = slice.owner, bytes = step.bytes] {
        if (const auto self = weak.lock()) self->returned(bytes);
      },
      0, link_->lane(number_));
  if (sent.done()) {
    if (const Status status = sent.wait(); !status.ok()) return not_lent(step, status);
  }
  link_->counters().lent.fetch_add(1, std::memory_order_relaxed);
  link_->counters().lent_bytes.fetch_add(step.bytes, std::memory_order_relaxed);
  if (step.staged) {
    link_->counters().staged_bytes.fetch_add(step.bytes, std::memory_order_relaxed);
  }
}

void Outgoing::not_lent(Step& step, const Status& status) {
  const bool full = status.code() == StatusCode::kResourceExhausted;
  if (!full && status.code() != StatusCode::kUnsupported) return fail(status);
  const std::lock_guard lock(mutex_);
  if (!failed_.ok()) return;
  lent_ -= step.bytes;
  sent_ -= step.bytes;
  waiting_.push_front(std::move(step.slices.front()));
  no_lends_ = no_lends_ || !full;
  // While something is lent, its return makes room and asks again; but messages get on as well.
  by_message_ = step.bytes;
}

void Outgoing::returned(std::uint64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    lent_ -= bytes;
  }
  pump();
}

void Outgoing::end_writes() {
  std::vector<Write> done;
  {
    const std::lock_guard lock(mutex_);
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
