#include "fabric/verbs/lane_sender.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/mutex.h"

namespace farwrite::fabric::verbs {
namespace {

void append(std::vector<std::byte>& bytes, ByteView more) {
  if (more.size > 0) bytes.insert(bytes.end(), more.data, more.data + more.size);
}

}  // namespace

LaneSender::LaneSender(Adapter& adapter, LaneMemory& memory, WorkPlace place)
    : adapter_(adapter),
      place_(std::move(place)),
      requests_(adapter, memory, place_),
      outbox_("verbs", place_.peer) {}

void LaneSender::begin(ibv_qp* pair, const CompletionQueue::QueueShare& queue,
                       const HelloMessage& peer) {
  const core::Lock lock(mutex_);
  requests_.begin(pair, queue);
  if (peer.flush_by_atomic) requests_.flush_by_atomic();
  peer_ = peer;
  outbox_.set_credit(peer.credits);
}

Status LaneSender::send_setup(ibv_qp* pair, const CompletionQueue::QueueShare& queue,
                              MessageType type, ByteView payload) {
  {
    const core::Lock lock(mutex_);
    requests_.begin(pair, queue);
  }
  control(type, 0, payload);
  return failure();
}

Status LaneSender::revoked() const {
  return Status::error(StatusCode::kFailedPrecondition, {"write", place_.peer, "verbs"},
                       "the memory was closed by its owner", "ask the peer for other memory");
}

bool LaneSender::is_dropped(const Work& work) const {
  return work.window != nullptr && work.kind == Work::Kind::kWrite && work.window->revoked.load();
}

Completion LaneSender::post(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kWrite:
      return write(operation);
    case OperationKind::kRead:
      return read(operation);
    case OperationKind::kNotify:
      return notify(MessageType::kNotify, operation);
    case OperationKind::kMessage:
      return notify(MessageType::kMessage, operation);
    case OperationKind::kRecord:
      return notify(MessageType::kRecord, operation);
    case OperationKind::kEnd:
      return end_lane();
    case OperationKind::kFlush:
      break;
  }
  return Completion(Status::error(StatusCode::kInternal, {"post", place_.peer, "verbs"},
                                  "unknown operation", "report this"));
}

Completion LaneSender::write(const Operation& operation) {
  const auto& window = std::static_pointer_cast<VerbsWindow>(operation.window);
  Work work;
  work.window = window;
  work.remote = window->address + operation.offset;
  work.remote_key = window->remote_key;
  work.notify = operation.notify;
  work.costs_credit = operation.notify;
  work.tag = operation.tag;
  append(work.own, operation.head);
  work.source = operation.source;
  const std::uint64_t bytes = work.own.size() + work.source.size;
  bool copied = work.source.size == 0 || bytes <= adapter_.limits().inline_bytes;
  if (!copied) {
    work.registration = adapter_.registrations().peek(work.source, /*writable=*/false);
    if (work.registration == nullptr && bytes <= kMaxMessageBytes) {
      copied = true;
      counters().copies.add();
    } else {
      auto found = adapter_.registrations().find(work.source, /*writable=*/false);
      if (!found.ok()) return Completion(found.status());
      work.registration = *std::move(found);
    }
  }
  if (copied) {
    append(work.own, work.source);
    work.source = {};
  }
  return submit(std::move(work));
}

Completion LaneSender::read(const Operation& operation) {
  const auto& window = static_cast<const VerbsWindow&>(*operation.window);
  if (operation.destination.size == 0) return Completion(Status());
  Work work;
  work.kind = Work::Kind::kRead;
  work.remote = window.address + operation.offset;
  work.remote_key = window.remote_key;
  work.destination = operation.destination;
  auto found = adapter_.registrations().find(
      {operation.destination.data, operation.destination.size}, /*writable=*/true);
  if (!found.ok()) return Completion(found.status());
  work.registration = *std::move(found);
  return submit(std::move(work));
}

Completion LaneSender::notify(MessageType type, const Operation& operation) {
  Work work;
  work.costs_credit = true;
  work.accepted = operation.accepted;
  work.tag = operation.tag;
  if (type == MessageType::kNotify && adapter_.has_immediate()) {
    work.notify = true;  // a write of no bytes
  } else {
    work.kind = Work::Kind::kMessage;
    MessageHeader header;
    header.type = type;
    header.tag = operation.tag;
    const auto bytes = header.to_bytes();
    append(work.own, {bytes.data(), bytes.size()});
    append(work.own, operation.source);
  }
  return submit(std::move(work));
}

Completion LaneSender::end_lane() {
  Work work;
  work.kind = Work::Kind::kMessage;
  work.accepted = true;  // without it the peer would wait for more
  MessageHeader header;
  header.type = MessageType::kEnd;
  const auto bytes = header.to_bytes();
  append(work.own, {bytes.data(), bytes.size()});
  Finished finished;
  {
    const core::Lock lock(mutex_);
    if (!ended_.ok()) return Completion(ended_);
    if (!outbox_.empty()) {
      const Weight weight = weight_of(work);
      (void)outbox_.hold(std::move(work), weight);
    } else if (!queue_.empty() || !post_all_locked(work, finished)) {
      queue_.push_back(std::move(work));
    }
  }
  tell(std::move(finished));
  return Completion(Status());
}

bool LaneSender::control(MessageType type, std::uint64_t value, ByteView payload) {
  Work work;
  work.kind = Work::Kind::kMessage;
  work.is_control = true;
  MessageHeader header;
  header.type = type;
  header.value = value;
  const auto bytes = header.to_bytes();
  append(work.own, {bytes.data(), bytes.size()});
  append(work.own, payload);
  Finished finished;
  {
    const core::Lock lock(mutex_);
    if (!ended_.ok()) return true;  // no receiver is left
    if (queued_controls_ >= kReservedReceives) return false;
    ++queued_controls_;
    if (!queue_.empty() || !post_all_locked(work, finished)) queue_.push_back(std::move(work));
  }
  tell(std::move(finished));
  return true;
}

bool LaneSender::flush(const std::shared_ptr<core::CompletionState>& completion) {
  Finished finished;
  {
    const core::Lock lock(mutex_);
    if (!ended_.ok()) {
      finished.emplace_back(completion, ended_);
    } else {
      // An earlier flush that has not come back has writes before it, too.
      if (!written_ && queued_flushes_ + requests_.flushes() == 0) return false;
      written_ = false;
      ++queued_flushes_;
      requests_.counters().flushes.add();
      Work work;
      work.kind = Work::Kind::kFlush;
      work.remote = peer_.flush_address;
      work.remote_key = peer_.flush_key;
      work.completion = completion;
      if (!queue_.empty() || !post_all_locked(work, finished)) queue_.push_back(std::move(work));
    }
  }
  tell(std::move(finished));
  return true;
}

Completion LaneSender::submit(Work&& work) {
  Finished finished;
  std::shared_ptr<core::CompletionState> completion;
  Status given_up;
  const bool borrows = work.source.size > 0 || work.destination.size > 0;
  {
    const core::Lock lock(mutex_);
    if (!ended_.ok()) return Completion(ended_);
    if (is_dropped(work)) return Completion(revoked());
    if (work.costs_credit && !outbox_.admit(1)) {
      const bool plain = work.kind == Work::Kind::kWrite && work.bytes() > 0;
      if (!plain) {
        const Weight weight = weight_of(work);
        return outbox_.hold_pending(std::move(work), weight);
      }
      // The bytes need no credit; the tag comes behind them when there is some.
      Work tag;
      tag.notify = true;
      tag.costs_credit = true;
      tag.tag = work.tag;
      tag.window = work.window;
      const Weight weight = weight_of(tag);
      if (Status held = outbox_.hold(std::move(tag), weight); !held.ok()) {
        return Completion(std::move(held));
      }
      work.notify = false;
      work.costs_credit = false;
    }
    if (work.kind == Work::Kind::kWrite && work.bytes() > 0) written_ = true;
    if (borrows) {
      completion = std::make_shared<core::CompletionState>();
      work.completion = completion;
    }
    if (!queue_.empty() || !post_all_locked(work, finished)) {
      if (completion == nullptr) {
        completion = std::make_shared<core::CompletionState>();
        work.completion = completion;
      }
      queue_.push_back(std::move(work));
    } else {
      given_up = work.given_up;
    }
  }
  tell(std::move(finished));
  return completion == nullptr ? Completion(given_up) : Completion(std::move(completion));
}

Weight LaneSender::weight_of(const Work& work) {
  return {work.own.size(), work.costs_credit ? 1U : 0U, work.tag, work.accepted};
}

bool LaneSender::add_credit(std::uint64_t count) {
  const core::Lock lock(mutex_);
  if (!outbox_.add_credit(count)) return false;
  release_held_locked();
  return true;
}

// Moves what there is credit for behind the queue.
void LaneSender::release_held_locked() {
  while (std::optional<Work> work = outbox_.next()) queue_.push_back(*std::move(work));
}

void LaneSender::pump(Finished& finished) {
  const core::Lock lock(mutex_);
  do {
    while (!queue_.empty() && post_all_locked(queue_.front(), finished)) queue_.pop_front();
    if (!queue_.empty()) return;
    release_held_locked();  // what was dropped may have given credit back
  } while (!queue_.empty());
}

void LaneSender::leave_queue_locked(const Work& work) {
  if (work.kind == Work::Kind::kFlush) --queued_flushes_;
  if (work.is_control) --queued_controls_;
}

// True once all of it is with the adapter, or given up.
bool LaneSender::post_all_locked(Work& work, Finished& finished) {
  const std::uint64_t bytes = work.bytes();
  if (work.kind == Work::Kind::kWrite && bytes == 0 && !work.notify) {
    if (work.completion != nullptr) finished.emplace_back(std::move(work.completion), Status());
    return true;
  }
  do {
    if (!ended_.ok()) return give_up_locked(work, ended_, finished);
    if (is_dropped(work)) return give_up_locked(work, revoked(), finished);
    if (!requests_.post(work, finished)) {
      if (requests_.failed()) ended_ = requests_.failure();
      return false;
    }
  } while (work.posted < bytes);
  leave_queue_locked(work);
  return true;
}

bool LaneSender::give_up_locked(Work& work, const Status& reason, Finished& finished) {
  work.given_up = reason;
  leave_queue_locked(work);
  // Nothing will see it and give it back.
  if (work.costs_credit && ended_.ok()) (void)outbox_.add_credit(1);
  if (work.completion == nullptr) return true;
  // Where the adapter still moves its first part, nothing was posted since.
  if (work.posted > 0 && requests_.end_with_newest(work, reason)) return true;
  finished.emplace_back(std::move(work.completion), reason);
  return true;
}

void LaneSender::on_sent(const ibv_wc& completion, std::uint32_t number, Finished& finished) {
  const core::Lock lock(mutex_);
  requests_.on_sent(completion, number, ended_, finished);
}

Status LaneSender::failure() const {
  const core::Lock lock(mutex_);
  return requests_.failure();
}

SendQueue::Cause LaneSender::cause() const {
  const core::Lock lock(mutex_);
  return requests_.cause();
}

void LaneSender::end(const Status& reason) {
  Finished finished;
  {
    const core::Lock lock(mutex_);
    if (ended_.ok()) ended_ = reason;
    for (Work& work : queue_) (void)give_up_locked(work, ended_, finished);
    queue_.clear();
    while (std::optional<Work> work = outbox_.drop()) {
      (void)give_up_locked(*work, ended_, finished);
    }
  }
  tell(std::move(finished));
}

void LaneSender::settle(const Status& reason) {
  end(reason);
  Finished finished;
  {
    const core::Lock lock(mutex_);
    requests_.settle(ended_, finished);
  }
  tell(std::move(finished));
}

}  // namespace farwrite::fabric::verbs
