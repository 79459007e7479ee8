#include "stream/incoming.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "core/fields.h"
#include "core/mutex.h"

namespace farwrite::stream {
namespace {

// Reads of one stream at a time, between hosts.
constexpr std::uint32_t kMostReads = 4;
// The program's credit goes back in this many batches for each window.
constexpr std::uint64_t kBatches = 4;
// The most bytes that one read takes, so that a program sees the first ones early.
constexpr std::uint64_t kMostPerRead = std::uint64_t{8} << 20;

Status against_the_rules(std::string_view cause) {
  return Status::error(StatusCode::kProtocolError, {.operation = "receive a stream"}, cause,
                       "run the same release with the same options on both sides");
}

Status differs(const std::string& option, std::uint64_t theirs, std::uint64_t ours) {
  return Status::error(StatusCode::kFailedPrecondition, {.operation = "receive a stream"},
                       "the sender's " + option + " is " + std::to_string(theirs) +
                           " bytes and the receiver's is " + std::to_string(ours),
                       "create the streams of both sides with the same " + option);
}

}  // namespace

void Incoming::read(Stream::OnRead on_read) {
  {
    const core::Lock lock(mutex_);
    if (reader_ == nullptr) {
      reader_ = std::move(on_read);
      on_read = nullptr;
    }
  }
  if (on_read != nullptr) {
    return on_read(Status::error(StatusCode::kFailedPrecondition, {.operation = "read a stream"},
                                 "another read is waiting", "read again when it has ended"));
  }
  go_on();
}

Status Incoming::take_begin(std::uint64_t window, ByteView payload) {
  core::FieldReader reader(payload);
  std::uint64_t message_window = 0;
  reader(message_window);
  FARWRITE_RETURN_IF_ERROR(reader.finish({.operation = "receive a stream"}));
  if (window != options_.window) return differs("window", window, options_.window);
  if (message_window != options_.message_window) {
    return differs("message_window", message_window, options_.message_window);
  }
  const core::Lock lock(mutex_);
  if (begun_) return against_the_rules("a second beginning");
  begun_ = true;
  return Status();
}

Status Incoming::take_data(std::vector<std::byte> message, ByteView payload, RemoteRegion lent) {
  Result<DataPattern> pattern = DataPattern::decode(payload);
  if (!pattern.ok()) return pattern.status();
  if (pattern->lent_bytes() != (lent.valid() ? lent.size() : 0)) {
    return against_the_rules("other memory is lent than the message speaks of");
  }
  if (lent.valid() && lent.size() == 0) return against_the_rules("a lend without memory");
  {
    const core::Lock lock(mutex_);
    if (!failed_.ok()) return Status();  // sent before the peer knew
    if (!begun_) return against_the_rules("bytes before the beginning");
    if (ended_) return against_the_rules("bytes behind the end");
    unread_credit_ += pattern->inline_bytes() + kFrameCredit;
    if (unread_credit_ + credit_due_ > options_.message_window) {
      return against_the_rules("more bytes in messages than the window allows");
    }
    deferred_.push_back(
        {.message = std::make_shared<const std::vector<std::byte>>(std::move(message)),
         .pattern = *std::move(pattern),
         .lent = std::move(lent)});
  }
  go_on();
  return Status();
}

Status Incoming::take_end() {
  {
    const core::Lock lock(mutex_);
    if (!begun_) return against_the_rules("an end before the beginning");
    if (ended_) return against_the_rules("a second end");
    ended_ = true;
  }
  go_on();
  return Status();
}

bool Incoming::complete() const {
  const core::Lock lock(mutex_);
  return told_taken_ && failed_.ok();
}

void Incoming::fail(const Status& reason, bool dropped) {
  std::deque<std::shared_ptr<ReadyBytes>> pieces;  // owners go without the lock
  std::deque<DeferredFrame> deferred;
  {
    const core::Lock lock(mutex_);
    // What came whole, up to its end, is read whatever becomes of the channel.
    const bool came_whole =
        ended_ && !dropped && deferred_.empty() &&
        std::all_of(pieces_.begin(), pieces_.end(), [](const auto& piece) { return piece->ready; });
    if (failed_.ok() && !came_whole) failed_ = reason;
    deferred.swap(deferred_);
    if (dropped) {
      pieces.swap(pieces_);
      unread_ = 0;
    }
  }
  go_on();
}

void Incoming::go_on() {
  going_on_.run([&] {
    while (fetch() || deliver()) {
    }
  });
}

bool Incoming::fetch() {
  const core::Lock lock(mutex_);
  if (deferred_.empty() || reaching_) return false;
  DeferredFrame& frame = deferred_.front();
  if (frame.lent.valid()) return fetch_lent(frame);
  const auto piece = add_piece(frame.pattern, frame);
  piece->slices = frame.pattern.slices(frame.message, {});
  piece->ready = true;
  deferred_.pop_front();
  return true;
}

std::shared_ptr<Incoming::ReadyBytes> Incoming::add_piece(const DataPattern& pattern,
                                                          DeferredFrame& frame) {
  auto piece = std::make_shared<ReadyBytes>();
  piece->credit = pattern.inline_bytes() + std::exchange(frame.credit, 0);
  piece->bytes = pattern.inline_bytes() + pattern.lent_bytes();
  unread_ += piece->bytes;
  pieces_.push_back(piece);
  return piece;
}

bool Incoming::fetch_lent(DeferredFrame& frame) {
  const std::uint64_t left = frame.lent.size() - frame.offset;
  const bool maps = link_->channel().maps_peer_memory();
  if (maps && !frame.lent.reached()) {
    reaching_ = true;
    const RemoteRegion lent = frame.lent;
    const core::Unlock unlocked(mutex_);
    link_->reach(lent, [weak = weak_from_this()](const Status& status) {
      if (const auto self = weak.lock()) self->reached(status);
    });
    return false;
  }
  const bool full = held_->load(std::memory_order_relaxed) + left > options_.held;
  if (maps && !full) return alias(frame);
  if (maps) {
    // A copy in this thread: only when the program has nothing else to take.
    if (!pieces_.empty()) return false;
  } else if (reads_ >= kMostReads || (unread_ > 0 && unread_ + options_.chunk > options_.window)) {
    return false;
  }
  read_chunk(frame, full);
  return true;
}

bool Incoming::alias(DeferredFrame& frame) {
  DeferredFrame taken = std::move(frame);
  deferred_.pop_front();
  const auto piece = add_piece(taken.pattern, taken);
  const std::uint64_t bytes = taken.pattern.lent_bytes();
  const std::function<void()> freed = hold(bytes);
  std::vector<Slice> slices;
  {
    const core::Unlock unlocked(mutex_);
    Result<Alias> alias = link_->channel().alias(taken.lent, taken.offset, bytes);
    if (!alias.ok()) {
      freed();
      fail(alias.status(), false);
      return true;
    }
    link_->counters().aliased_bytes.fetch_add(bytes, std::memory_order_relaxed);
    const ByteView view = {alias->data(), alias->size()};
    std::shared_ptr<const void> owner(new Alias(*std::move(alias)), [freed](const void* kept) {
      delete static_cast<const Alias*>(kept);
      freed();
    });
    slices = taken.pattern.slices(taken.message, {.bytes = view, .owner = std::move(owner)});
  }
  piece->slices = std::move(slices);
  piece->ready = true;
  return true;
}

void Incoming::read_chunk(DeferredFrame& frame, bool held_back) {
  const RemoteRegion lent = frame.lent;
  const std::uint64_t offset = frame.offset;
  const std::uint64_t bytes = std::min<std::uint64_t>(options_.chunk, lent.size() - offset);
  const DataPattern pattern = frame.pattern.take(bytes);
  const auto message = frame.message;
  frame.offset += bytes;
  const auto piece = add_piece(pattern, frame);
  if (frame.offset == lent.size()) deferred_.pop_front();
  ++reads_;
  std::function<void()> freed = held_back ? std::function<void()>() : hold(bytes);
  const core::Unlock unlocked(mutex_);
  Result<StreamLink::StreamBuffer> buffer = link_->buffer(bytes, !held_back, std::move(freed));
  if (!buffer.ok()) return read_over(*piece, buffer.status());
  piece->slices = pattern.slices(
      message, {.bytes = {buffer->data, static_cast<std::size_t>(bytes)}, .owner = buffer->owner});
  link_->counters().read_bytes.fetch_add(bytes, std::memory_order_relaxed);
  if (held_back) link_->counters().held_back_bytes.fetch_add(bytes, std::memory_order_relaxed);
  link_->channel()
      .read({buffer->data, static_cast<std::size_t>(bytes)}, lent, offset, link_->lane(number_))
      // The read must not keep the stream, and so the channel: the peer may never serve it.
      .on_settled([weak = weak_from_this(), piece, lent](const Status& status) {
        if (const auto self = weak.lock()) self->read_over(*piece, status);
      });
}

void Incoming::read_over(ReadyBytes& piece, const Status& status) {
  {
    const core::Lock lock(mutex_);
    --reads_;
    if (status.ok()) piece.ready = true;
  }
  if (!status.ok()) return fail(status, false);
  go_on();
}

void Incoming::reached(const Status& status) {
  {
    const core::Lock lock(mutex_);
    reaching_ = false;
  }
  if (!status.ok()) return fail(status, false);
  go_on();
}

std::function<void()> Incoming::hold(std::uint64_t bytes) {
  held_->fetch_add(bytes, std::memory_order_relaxed);
  return [held = held_, bytes] { held->fetch_sub(bytes, std::memory_order_relaxed); };
}

bool Incoming::deliver() {
  Stream::OnRead reader;
  std::vector<Slice> slices;
  std::uint64_t credit = 0;
  Status failed;
  bool tell_taken = false;
  {
    const core::Lock lock(mutex_);
    if (reader_ != nullptr) {
      std::uint64_t bytes = 0;
      while (!pieces_.empty() && pieces_.front()->ready && bytes < kMostPerRead) {
        ReadyBytes& piece = *pieces_.front();
        bytes += piece.bytes;
        unread_credit_ -= piece.credit;
        credit_due_ += piece.credit;
        slices.insert(slices.end(), std::make_move_iterator(piece.slices.begin()),
                      std::make_move_iterator(piece.slices.end()));
        pieces_.pop_front();
      }
      unread_ -= bytes;
      if (!slices.empty() || !failed_.ok() || (ended_ && empty())) {
        reader = std::exchange(reader_, nullptr);
        if (slices.empty()) failed = failed_;
      }
    }
    if (credit_due_ >= options_.message_window / kBatches && failed_.ok()) {
      credit = std::exchange(credit_due_, 0);
    }
    if (ended_ && empty() && failed_.ok()) tell_taken = !std::exchange(told_taken_, true);
  }
  if (credit > 0) {
    link_->counters().credits.fetch_add(1, std::memory_order_relaxed);
    link_->tell({.kind = FrameKind::kCredit, .stream = number_, .value = credit});
  }
  if (tell_taken) link_->tell({.kind = FrameKind::kTaken, .stream = number_});
  if (reader == nullptr) return false;
  if (failed.ok()) {
    reader(std::move(slices));
  } else {
    reader(failed);
  }
  return true;
}

}  // namespace farwrite::stream
