#include "fabric/tcp/tcp_lane.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "core/channel_end.h"
#include "core/mutex.h"
#include "core/status_wire.h"
#include "core/wire.h"
#include "fabric/tcp/tcp_link.h"

namespace farwrite::fabric::tcp {
namespace {

// Credit is given back in pieces of this many bytes.
constexpr std::uint64_t kCreditPiece = kCreditWindow / 4;
// Answers that wait for a peer that does not read them; an honest one has fewer under way.
constexpr std::size_t kMaxQueuedAnswers = 1 << 16;

// In bytes of the peer's credit.
std::uint64_t cost_of(const ReceivedNotification& received) {
  return kNotificationCost + received.notification.message.size();
}

}  // namespace

TcpLane::TcpLane(TcpLink& link, std::uint32_t index, std::unique_ptr<core::ByteStream> stream,
                 core::UniqueFd contended)
    : link_(link),
      index_(index),
      stream_(std::move(stream)),
      sender_(*stream_, link.peer_name_),
      receiver_(*stream_),
      more_(stream_->has_unread()),
      contended_bell_(std::move(contended)) {}

Completion TcpLane::post(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kWrite:
      return write(operation);
    case OperationKind::kRead:
      return read(operation);
    case OperationKind::kNotify:
      return notify(FrameType::kNotify, operation);
    case OperationKind::kMessage:
      return notify(FrameType::kMessage, operation);
    case OperationKind::kRecord:
      return notify(FrameType::kRecord, operation);
    case OperationKind::kFlush:
      return link_.flush();
    case OperationKind::kEnd:
      return end_lane();
  }
  return Completion(link_.error(StatusCode::kInternal, "post", "unknown operation", "report this"));
}

Completion TcpLane::write(const Operation& operation) {
  const auto& window = static_cast<const TcpWindow&>(*operation.window);
  OutgoingFrame frame;
  frame.header.type = FrameType::kWrite;
  frame.header.tag = operation.tag;
  frame.header.key = window.key;
  frame.header.offset = window.base + operation.offset;
  frame.header.length = operation.head.size + operation.source.size;
  frame.head = operation.head;
  frame.payload = operation.source;
  if (operation.notify) frame.header.flags = kNotifyFlag;
  Completion sent = operation.notify ? sender_.write_and_notify(frame) : sender_.send(frame);
  // Not before: another thread's flush would take the mark, and go ahead of the write.
  written_.store(true);
  return sent;
}

Completion TcpLane::notify(FrameType type, const Operation& operation) {
  OutgoingFrame frame;
  frame.header.type = type;
  frame.header.tag = operation.tag;
  frame.header.length = operation.source.size;
  frame.payload = operation.source;
  return sender_.notify(frame, operation.accepted);
}

Completion TcpLane::read(const Operation& operation) {
  const auto& window = static_cast<const TcpWindow&>(*operation.window);
  OutgoingFrame frame;
  frame.header.type = FrameType::kRead;
  frame.header.key = window.key;
  frame.header.offset = window.base + operation.offset;
  frame.header.length = operation.destination.size;
  PendingRead read;
  read.destination = operation.destination;
  read.completion = std::make_shared<core::CompletionState>();
  Completion completion(read.completion);
  {
    const core::Lock lock(requests_mutex_);
    if (!ended_.ok()) return Completion(ended_);
    frame.header.request = ++last_request_;
    if (reads_.size() >= kMaxReadsUnderWay) {
      waiting_reads_.push_back({frame.header, std::move(read)});
      return completion;
    }
    reads_.emplace(frame.header.request, std::move(read));
  }
  // A failure to send is the connection's end, which the read will report.
  (void)sender_.send(frame);
  return completion;
}

Completion TcpLane::end_lane() {
  OutgoingFrame frame;
  frame.header.type = FrameType::kEnd;
  return sender_.notify(frame, /*accepted=*/true);  // without it the peer waits for more
}

void TcpLane::flush(const std::shared_ptr<LinkFlush>& flush) {
  OutgoingFrame frame;
  frame.header.type = FrameType::kFlush;
  {
    const core::Lock lock(requests_mutex_);
    if (!ended_.ok()) {
      flush->asked();
      return flush->answered(ended_);
    }
    // An earlier flush that is not answered yet has writes before it, too.
    if (!written_.exchange(false) && flushes_.empty()) return;
    frame.header.request = ++last_request_;
    flushes_.emplace(frame.header.request, flush);
    flush->asked();
  }
  (void)sender_.send(frame);
}

void TcpLane::end_sending() {
  sender_.end(link_.closed_by_peer());
  stream_->end_sending();
}

Link::Parting TcpLane::part(bool last) {
  bool sent = false;
  if (last) {
    sent = sender_.end_behind_queue(link_.closed());
  } else {
    sender_.flush();
    sent = !sender_.has_queue();
  }
  if (over_.load()) return Link::Parting::kOver;
  return sent ? Link::Parting::kSent : Link::Parting::kSending;
}

Progress TcpLane::poll(EventSink& sink) {
  Progress progress;
  if (polling_.test_and_set(std::memory_order_acquire)) return progress;
  sender_.flush();
  hand_over(sink, progress);
  if (!over_.load()) {
    look();
    hand_over(sink, progress);
    sender_.flush();
  }
  progress.unsent = sender_.has_queue() && !over_.load();
  progress.awaits = awaits_answers() && !over_.load();
  progress.drained = (over_.load() || end_seen_) && received_.empty();
  has_received_.store(!received_.empty());
  polling_.clear();
  // Who came meanwhile and went to sleep does not know what we left.
  if (contended_.exchange(false)) (void)::eventfd_write(contended_bell_.get(), 1);
  return progress;
}

bool TcpLane::awaits_answers() {
  const core::Lock lock(requests_mutex_);
  return !reads_.empty() || !flushes_.empty();
}

void TcpLane::look() {
  const LaneReceiver::Look look = receiver_.look(*this);
  more_.store(look.more);
  if (!look.ended && look.broken.ok()) return;
  // The peer may wait for the end of this direction before it lets go of its socket. Answers to
  // what it asked before its end go first.
  if (look.ended) {
    sender_.flush();
    stream_->shutdown();
  }
  over_.store(true);
  more_.store(false);
  Status reason = look.broken;
  if (reason.ok() && end_seen_ && look.error != EBADMSG) {
    reason = link_.closed_by_peer();
  } else if (reason.ok()) {
    reason =
        look.error == 0
            ? link_.error(StatusCode::kPeerDead, core::kUseTheChannel,
                          "the peer's process ended, or its host closed the connection",
                          "restart the peer and connect again")
            : Status::system_error(
                  StatusCode::kPeerDead, {core::kUseTheChannel, link_.peer_name_, "tcp"},
                  look.error == EBADMSG ? "bytes were changed in transit" : "the connection broke",
                  look.error, "check that the peer and the network are up, and connect again");
  }
  end(reason);
  if (!look.broken.ok()) {
    link_.lane_broken(reason);
  } else if (!end_seen_) {
    link_.lane_ended(index_, reason);
  }
}

void TcpLane::hand_over(EventSink& sink, Progress& progress) {
  while (!received_.empty() && sink.has_room()) {
    ReceivedNotification received = std::move(received_.front());
    received_.pop_front();
    owed_credit_ += cost_of(received);
    ++progress.delivered;
    std::move(received).deliver(sink);
  }
  if (owed_credit_ < kCreditPiece || over_.load()) return;
  OutgoingFrame credit;
  credit.header.type = FrameType::kCredit;
  credit.header.length = std::exchange(owed_credit_, 0);
  used_credit_ -= credit.header.length;
  (void)sender_.send(credit);
}

Doorbell TcpLane::arm() {
  Doorbell doorbell;
  if (polling_.test()) {
    // The descriptor is readable as long as the other thread has not taken everything.
    if (!contended_.exchange(true)) {
      eventfd_t rings = 0;
      (void)::eventfd_read(contended_bell_.get(), &rings);
      contended_.store(true);  // the ring just taken away may have been for us
    }
    doorbell.fd = contended_bell_.get();
    // If it has left by now, it may not have seen us.
    doorbell.ready = !polling_.test();
    return doorbell;
  }
  doorbell.ready = more_.load();
  doorbell.holds = has_received_.load();
  if (over_.load()) return doorbell;  // a descriptor at its end is always readable
  doorbell.fd = stream_->fd();
  doorbell.events = static_cast<short>(POLLIN | (sender_.has_queue() ? POLLOUT : 0));
  return doorbell;
}

Destination TcpLane::begin(const FrameHeader& header) {
  if (header.type == FrameType::kReadReply) {
    const core::Lock lock(requests_mutex_);
    const auto found = reads_.find(header.request);
    if (found == reads_.end() || found->second.destination.size != header.length) return {};
    return {found->second.destination.data, kNoGrant, nullptr};
  }
  auto destination = link_.reach_write(header);
  landing_refused_ = destination.status();
  return destination.ok() ? *std::move(destination) : Destination();
}

Status TcpLane::take_write(const FrameHeader& header, bool landed) {
  const bool notifies = header.flags == kNotifyFlag;
  if (landed) return notifies ? arrive(header, {}) : Status();
  if (landing_refused_.ok()) {  // it was allowed when it began
    landing_refused_ = link_.error(StatusCode::kFailedPrecondition, "write",
                                   "the memory was closed by its owner meanwhile",
                                   "ask the peer for other memory");
  }
  if (refused_.ok()) refused_ = landing_refused_;
  if (!notifies) return Status();
  owed_credit_ += kNotificationCost;  // its sender has paid for a tag that nothing sees
  return charge(kNotificationCost);
}

Status TcpLane::finish(const FrameHeader& header, bool landed, std::vector<std::byte>&& body) {
  switch (header.type) {
    case FrameType::kWrite:
      return take_write(header, landed);
    case FrameType::kNotify:
    case FrameType::kMessage:
    case FrameType::kRecord:
      return arrive(header, std::move(body));
    case FrameType::kRead:
      return serve_read(header);
    case FrameType::kReadReply:
      return take_read_reply(header);
    case FrameType::kRefused:
      return take_refusal(header, body);
    case FrameType::kFlush:
      answer_flush(header);
      return sender_.queued_answers() < kMaxQueuedAnswers
                 ? Status()
                 : protocol_error("the peer sends requests and does not read the answers");
    case FrameType::kFlushed:
      return take_flushed(header, body);
    case FrameType::kCredit:
      return sender_.add_credit(header.length)
                 ? Status()
                 : protocol_error("the peer returns more credit than it received");
    case FrameType::kEnd:
      end_seen_ = true;
      owed_credit_ += kNotificationCost;
      return charge(kNotificationCost);
  }
  return protocol_error("an unknown frame");
}

Status TcpLane::charge(std::uint64_t cost) {
  used_credit_ += cost;
  return used_credit_ <= kCreditWindow
             ? Status()
             : protocol_error("the peer sends notifications without credit for them");
}

Status TcpLane::arrive(const FrameHeader& header, std::vector<std::byte>&& message) {
  ReceivedNotification received;
  received.notification.tag = header.tag;
  received.notification.lane = index_;
  received.notification.message = std::move(message);
  received.is_record = header.type == FrameType::kRecord;
  const Status charged = charge(cost_of(received));
  received_.push_back(std::move(received));
  return charged;
}

Status TcpLane::serve_read(const FrameHeader& header) {
  if (sender_.queued_answers() >= kMaxReadsUnderWay + kMaxQueuedAnswers) {
    return protocol_error("the peer requests reads and does not receive the answers");
  }
  OutgoingFrame reply;
  reply.header.request = header.request;
  auto source = link_.reach_read(header);
  if (!source.ok()) {
    const std::vector<std::byte> status = core::status_to_bytes(source.status());
    reply.header.type = FrameType::kRefused;
    reply.header.length = status.size();
    reply.payload = {status.data(), status.size()};
    (void)sender_.send(reply, /*copy_payload=*/true);
    return Status();
  }
  reply.header.type = FrameType::kReadReply;
  reply.header.length = header.length;
  reply.payload = {source->data, header.length};
  reply.owner = std::move(source->owner);
  (void)sender_.send(reply);
  return Status();
}

std::shared_ptr<core::CompletionState> TcpLane::take_pending(std::uint64_t request) {
  OutgoingFrame next;
  std::shared_ptr<core::CompletionState> completion;
  {
    const core::Lock lock(requests_mutex_);
    const auto found = reads_.find(request);
    if (found == reads_.end()) return nullptr;
    completion = std::move(found->second.completion);
    reads_.erase(found);
    if (waiting_reads_.empty()) return completion;
    next.header = waiting_reads_.front().header;
    reads_.emplace(next.header.request, std::move(waiting_reads_.front().read));
    waiting_reads_.pop_front();
  }
  (void)sender_.send(next);
  return completion;
}

Status TcpLane::take_read_reply(const FrameHeader& header) {
  {
    const core::Lock lock(requests_mutex_);
    const auto found = reads_.find(header.request);
    if (found == reads_.end() || found->second.destination.size != header.length) {
      return protocol_error("the peer answers a read that was not requested");
    }
  }
  take_pending(header.request)->finish(Status());
  return Status();
}

Status TcpLane::take_refusal(const FrameHeader& header, const std::vector<std::byte>& body) {
  Status refusal;
  FARWRITE_RETURN_IF_ERROR(core::status_from_bytes({body.data(), body.size()}, refusal));
  const std::shared_ptr<core::CompletionState> completion = take_pending(header.request);
  if (refusal.ok() || completion == nullptr) {
    return protocol_error("the peer refuses a read that was not requested");
  }
  completion->finish(
      Status(refusal.code(), link_.peer_name_ + " refused a read: " + refusal.message()));
  return Status();
}

void TcpLane::answer_flush(const FrameHeader& header) {
  OutgoingFrame answer;
  answer.header.type = FrameType::kFlushed;
  answer.header.request = header.request;
  std::vector<std::byte> status;
  if (!refused_.ok()) status = core::status_to_bytes(std::exchange(refused_, Status()));
  answer.header.length = status.size();
  answer.payload = {status.data(), status.size()};
  (void)sender_.send(answer, /*copy_payload=*/true);
}

Status TcpLane::take_flushed(const FrameHeader& header, const std::vector<std::byte>& body) {
  Status refusal;
  if (!body.empty()) {
    FARWRITE_RETURN_IF_ERROR(core::status_from_bytes({body.data(), body.size()}, refusal));
    refusal = Status(refusal.code(), link_.peer_name_ + " refused a write: " + refusal.message());
  }
  std::shared_ptr<LinkFlush> flush;
  {
    const core::Lock lock(requests_mutex_);
    const auto found = flushes_.find(header.request);
    if (found == flushes_.end()) {
      return protocol_error("the peer answers a flush that was not requested");
    }
    flush = std::move(found->second);
    flushes_.erase(found);
  }
  flush->answered(refusal);
  return Status();
}

void TcpLane::end_reads(const Status& reason) {
  std::vector<std::shared_ptr<core::CompletionState>> ended;
  {
    const core::Lock lock(requests_mutex_);
    for (const WaitingRead& waiting : waiting_reads_) ended.push_back(waiting.read.completion);
    waiting_reads_.clear();
    // An answer that still comes finds its request, and lands nowhere.
    for (auto& [request, read] : reads_) {
      ended.push_back(read.completion);
      read.destination.data = nullptr;
    }
  }
  receiver_.forget(kNoGrant);
  for (const auto& completion : ended) completion->finish(reason);
}

void TcpLane::end(const Status& reason) {
  std::map<std::uint64_t, PendingRead> reads;
  std::deque<WaitingRead> waiting;
  std::map<std::uint64_t, std::shared_ptr<LinkFlush>> flushes;
  {
    const core::Lock lock(requests_mutex_);
    if (ended_.ok()) ended_ = reason;
    reads.swap(reads_);
    waiting.swap(waiting_reads_);
    flushes.swap(flushes_);
  }
  sender_.end(reason);
  for (auto& [request, read] : reads) read.completion->finish(reason);
  for (WaitingRead& entry : waiting) entry.read.completion->finish(reason);
  for (auto& [request, flush] : flushes) flush->answered(reason);
}

Status TcpLane::protocol_error(std::string_view cause) const {
  return link_.error(StatusCode::kProtocolError, "read from the peer", cause, core::kBrokenRule);
}

}  // namespace farwrite::fabric::tcp
