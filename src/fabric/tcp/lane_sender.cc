#include "fabric/tcp/lane_sender.h"

#include <algorithm>

#include "core/mutex.h"
#include "core/unchecked_reads.h"
#include "core/with_memory.h"

namespace farwrite::fabric::tcp {
namespace {

constexpr std::size_t kPiecesPerCall = 64;

bool answers(FrameType type) {
  return type == FrameType::kReadReply || type == FrameType::kRefused ||
         type == FrameType::kFlushed;
}

iovec piece(const std::byte* data, std::size_t size) {
  return {const_cast<std::byte*>(data), size};
}

std::vector<std::byte> bytes_of(const FrameHeader& frame, ByteView head, ByteView payload) {
  const HeaderBytes header = frame.to_bytes();
  std::vector<std::byte> bytes;
  bytes.reserve(header.size() + head.size + payload.size);
  for (const ByteView part : {ByteView(header.data(), header.size()), head, payload}) {
    if (part.size > 0) bytes.insert(bytes.end(), part.data, part.data + part.size);
  }
  return bytes;
}

}  // namespace

LaneSender::LaneSender(core::ByteStream& stream, std::string peer_name)
    : stream_(stream), peer_name_(std::move(peer_name)), outbox_("tcp", peer_name_) {
  outbox_.set_credit(kCreditWindow);
}

Status LaneSender::broken(int error) const {
  return Status::system_error(StatusCode::kPeerDead, {"send", peer_name_, "tcp"},
                              "the connection broke", error, "restart the peer and connect again");
}

Completion LaneSender::send(const OutgoingFrame& frame, bool copy_payload) {
  const core::Lock lock(mutex_);
  return send_locked(frame, copy_payload);
}

Completion LaneSender::send_locked(const OutgoingFrame& frame, bool copy_payload) {
  if (!ended_.ok()) return Completion(ended_);
  const HeaderBytes header = frame.header.to_bytes();
  std::size_t sent = 0;
  if (queue_.empty()) {
    const std::array<iovec, 3> pieces = {piece(header.data(), header.size()),
                                         piece(frame.head.data, frame.head.size),
                                         piece(frame.payload.data, frame.payload.size)};
    const core::UncheckedReads unchecked(frame.owner != nullptr);
    const core::ByteStream::Moved moved = stream_.send(pieces.data(), pieces.size());
    // The receiving half finds out what ended the connection and tells all waiters.
    if (moved.state == core::ByteStream::State::kEnded) return Completion(broken(moved.error));
    sent = moved.bytes;
    if (sent == header.size() + frame.head.size + frame.payload.size) return Completion(Status());
  }
  QueuedFrame queued;
  const Status copied =
      core::with_memory({"send", peer_name_, "tcp"}, "what the kernel has no room for", [&] {
        queued.own = bytes_of(frame.header, frame.head, copy_payload ? frame.payload : ByteView());
      });
  if (!copied.ok()) {
    stream_.shutdown();  // part of the frame, or its credit, is gone
    return Completion(copied);
  }
  if (!copy_payload) {
    queued.payload = frame.payload;
    queued.owner = frame.owner;
  }
  queued.sent = sent;
  queued.completion = std::make_shared<core::CompletionState>();
  queued.answers = answers(frame.header.type);
  if (queued.answers) queued_answers_.fetch_add(1);
  Completion completion(queued.completion);
  queue_.push_back(std::move(queued));
  queued_.store(queue_.size());
  return completion;
}

Weight LaneSender::weight_of(const FrameHeader& header, ByteView payload) {
  return {payload.size, cost(header), header.tag};
}

Completion LaneSender::notify(const OutgoingFrame& frame, bool accepted) {
  const core::Lock lock(mutex_);
  if (!ended_.ok()) return Completion(ended_);
  if (outbox_.admit(cost(frame.header))) return send_locked(frame, /*copy_payload=*/true);
  CreditWaiter held;
  const Status copied = core::with_memory({"send", peer_name_, "tcp"}, "a message that waits", [&] {
    held.bytes = bytes_of(frame.header, {}, frame.payload);
  });
  if (!copied.ok()) return Completion(copied);
  Weight weight = weight_of(frame.header, frame.payload);
  weight.accepted = accepted;
  return outbox_.hold_pending(std::move(held), weight);
}

Completion LaneSender::write_and_notify(const OutgoingFrame& frame) {
  const core::Lock lock(mutex_);
  if (!ended_.ok()) return Completion(ended_);
  if (outbox_.admit(cost(frame.header))) return send_locked(frame, /*copy_payload=*/false);
  // The bytes need no credit; the tag comes behind them when there is some, in a write of no bytes
  // to the same place, so that the target refuses it when it refuses the bytes.
  FrameHeader notification = frame.header;
  notification.length = 0;
  Status held =
      outbox_.hold({bytes_of(notification, {}, {}), nullptr}, weight_of(notification, {}));
  if (!held.ok()) return Completion(std::move(held));
  OutgoingFrame write = frame;
  write.header.flags = 0;
  return send_locked(write, /*copy_payload=*/false);
}

bool LaneSender::add_credit(std::uint64_t bytes) {
  Finished finished;
  {
    const core::Lock lock(mutex_);
    if (!outbox_.add_credit(bytes)) return false;
    release_locked();
    flush_locked(finished);
  }
  tell(finished);
  return true;
}

// Moves what there is credit for behind the queue.
void LaneSender::release_locked() {
  while (std::optional<CreditWaiter> held = outbox_.next()) {
    QueuedFrame queued;
    queued.own = std::move(held->bytes);
    queued.completion = std::move(held->completion);
    queue_.push_back(std::move(queued));
  }
  queued_.store(queue_.size());
}

void LaneSender::flush() {
  if (queued_.load() == 0) return;
  Finished finished;
  {
    // Another thread that sends right now takes the queue along.
    if (!mutex_.try_lock()) return;
    const core::Lock lock(mutex_, std::adopt_lock);
    flush_locked(finished);
  }
  tell(finished);
}

void LaneSender::flush_locked(Finished& finished) {
  while (!queue_.empty()) {
    std::array<iovec, kPiecesPerCall> pieces;
    std::size_t count = 0;
    std::size_t offered = 0;
    bool answers_read = false;
    for (auto queued = queue_.begin(); queued != queue_.end() && count + 2 <= pieces.size();
         ++queued) {
      // The bytes of one answer are taken before those of the next (Capabilities::serves_reads);
      // within a call, the order of the loads is the processor's.
      if (answers_read && queued->owner != nullptr) break;
      const std::size_t own_sent = std::min(queued->sent, queued->own.size());
      const std::size_t payload_sent = queued->sent - own_sent;
      pieces[count++] = piece(queued->own.data() + own_sent, queued->own.size() - own_sent);
      pieces[count++] =
          piece(queued->payload.data + payload_sent, queued->payload.size - payload_sent);
      offered += queued->own.size() + queued->payload.size - queued->sent;
      answers_read = answers_read || queued->owner != nullptr;
    }
    const core::UncheckedReads unchecked(answers_read);
    const core::ByteStream::Moved moved = stream_.send(pieces.data(), count);
    if (moved.state == core::ByteStream::State::kEnded) {
      end_locked(broken(moved.error), finished);
      return;
    }
    std::size_t left = moved.bytes;
    while (!queue_.empty()) {
      QueuedFrame& queued = queue_.front();
      const std::size_t unsent = queued.own.size() + queued.payload.size - queued.sent;
      if (unsent > left) {
        queued.sent += left;
        break;
      }
      left -= unsent;
      pop_locked(finished, Status());
      if (left == 0) break;
    }
    if (moved.bytes < offered) break;  // the kernel has no room for more
  }
  queued_.store(queue_.size());
  if (ending_ && queue_.empty() && !std::exchange(sending_ended_, true)) stream_.end_sending();
}

void LaneSender::pop_locked(Finished& finished, const Status& status) {
  QueuedFrame& first = queue_.front();
  if (first.answers) queued_answers_.fetch_sub(1);
  finished.emplace_back(std::move(first.completion), status);
  queue_.pop_front();
}

void LaneSender::tell(Finished& finished) {
  for (auto& [completion, status] : finished) {
    if (completion != nullptr) completion->finish(std::move(status));
  }
}

void LaneSender::end_locked(const Status& reason, Finished& finished) {
  if (ended_.ok()) ended_ = reason;
  while (!queue_.empty()) pop_locked(finished, ended_);
  drop_held_back_locked(finished);
  queued_.store(0);
  sending_ended_ = true;
}

void LaneSender::drop_held_back_locked(Finished& finished) {
  while (std::optional<CreditWaiter> held = outbox_.drop()) {
    finished.emplace_back(std::move(held->completion), ended_);
  }
}

bool LaneSender::end_behind_queue(const Status& reason) {
  Finished finished;
  bool sent = false;
  {
    const core::Lock lock(mutex_);
    if (!std::exchange(ending_, true)) {
      if (ended_.ok()) ended_ = reason;
      drop_held_back_locked(finished);
    }
    flush_locked(finished);
    sent = sending_ended_;
  }
  tell(finished);
  return sent;
}

void LaneSender::end(const Status& reason) {
  Finished finished;
  {
    const core::Lock lock(mutex_);
    end_locked(reason, finished);
  }
  tell(finished);
}

}  // namespace farwrite::fabric::tcp
