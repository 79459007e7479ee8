#include "fabric/verbs/verbs_lane.h"

#include <arpa/inet.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <thread>
#include <utility>

#include "core/channel_end.h"
#include "core/mutex.h"
#include "core/wire.h"
#include "fabric/verbs/verbs_link.h"

namespace farwrite::fabric::verbs {
namespace {

constexpr std::uint32_t kReceiveBit = 1U << 31;  // of a work request's number

// The lane whose poll or arm this thread is in: it need not ring itself.
thread_local const VerbsLane* current = nullptr;

class CurrentLane {
 public:
  explicit CurrentLane(const VerbsLane* lane) : before_(std::exchange(current, lane)) {}
  ~CurrentLane() { current = before_; }
  CurrentLane(const CurrentLane&) = delete;
  CurrentLane& operator=(const CurrentLane&) = delete;

 private:
  const VerbsLane* const before_;
};

}  // namespace

VerbsLane::VerbsLane(VerbsLink& link, std::uint32_t index, Adapter& adapter)
    : link_(link), index_(index), adapter_(adapter) {}

VerbsLane::~VerbsLane() {
  close(
      link_.error(StatusCode::kCancelled, "connect", "the connection was abandoned", "try again"));
}

WorkPlace VerbsLane::place() const {
  return {link_.peer_name(), adapter_.address().device, index_};
}

Status VerbsLane::open(rdma_cm_id* id) {
  id_ = id;
  const LaneLimits& limits = adapter_.limits();
  auto memory =
      LaneMemory::create(adapter_.library(), adapter_.domain(), limits.receives,
                         limits.send_buffers, adapter_.address().device, adapter_.address().iwarp);
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  sender_ = std::make_unique<LaneSender>(adapter_, *memory_, place());
  queue_ = &adapter_.next_queue();
  auto share = queue_->add(*this, limits.sends + limits.receives);
  if (!share.ok()) return share.status();
  queue_share_ = *share;
  bell_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  sleep_.reset(::epoll_create1(EPOLL_CLOEXEC));
  for (const int fd : {bell_.get(), queue_->fd()}) {
    epoll_event event{};
    event.events = EPOLLIN;
    if (!bell_.valid() || !sleep_.valid() ||
        ::epoll_ctl(sleep_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
      return Status::system_error(
          StatusCode::kResourceExhausted, {"connect", link_.peer_name(), "verbs"},
          "no descriptor for a lane", errno, "raise the limit of open files (ulimit -n)");
    }
  }
  ibv_qp_init_attr attributes = queue_pair_attributes(limits, queue_share_.queue);
  if (const int error = adapter_.library().create_qp(id_, adapter_.domain(), &attributes);
      error != 0) {
    return Status::system_error(StatusCode::kResourceExhausted,
                                {"connect", link_.peer_name(), "verbs"},
                                adapter_.address().device + " cannot create a queue pair", error,
                                "close channels, use fewer lanes, or a smaller send_queue_depth "
                                "or receive_credits; `ibv_devinfo -v` shows the adapter's limits");
  }
  const core::Lock lock(mutex_);
  for (std::uint32_t buffer = 0; buffer < limits.receives; ++buffer)
    free_receives_.push_back(buffer);
  post_receives_locked();
  return broken_;
}

void VerbsLane::post_receives_locked() {
  if (free_receives_.empty() || over_.load()) return;
  std::vector<ibv_recv_wr> requests(free_receives_.size());
  std::vector<ibv_sge> pieces(free_receives_.size());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const std::uint32_t buffer = free_receives_[i];
    pieces[i] = {reinterpret_cast<std::uintptr_t>(memory_->receive_buffer(buffer)), kBounceBytes,
                 memory_->local_key()};
    requests[i] = {};
    requests[i].wr_id = CompletionQueue::work_id(queue_share_, kReceiveBit | buffer);
    requests[i].sg_list = &pieces[i];
    requests[i].num_sge = 1;
    requests[i].next = i + 1 < requests.size() ? &requests[i + 1] : nullptr;
  }
  ibv_recv_wr* bad = nullptr;
  if (const int error = adapter_.library().post_recv(id_->qp, requests.data(), &bad); error != 0) {
    return break_locked(Status::system_error(StatusCode::kInternal,
                                             {"receive", link_.peer_name(), "verbs"},
                                             adapter_.address().device + " accepted no receive",
                                             error, "connect again; see the kernel's log (dmesg)"));
  }
  receives_ += static_cast<std::uint32_t>(free_receives_.size());
  free_receives_.clear();
}

HelloMessage VerbsLane::hello() const {
  HelloMessage hello;
  hello.credits = adapter_.limits().credits;
  hello.message_bytes = kBounceBytes;
  hello.flush_address = memory_->flush_address();
  hello.flush_key = memory_->flush_key();
  hello.flush_by_atomic = adapter_.relaxed_ordering();
  hello.data_in_order = adapter_.data_in_order();
  return hello;
}

Status VerbsLane::send_setup(MessageType type, ByteView payload) {
  return sender_->send_setup(id_->qp, queue_share_, type, payload);
}

Result<std::optional<ControlMessage>> VerbsLane::take_control() {
  {
    const core::Lock lock(mutex_);
    if (!broken_.ok()) return broken_;
    if (!control_.empty()) {
      std::optional<ControlMessage> next(std::move(control_.front()));
      control_.pop_front();
      return next;
    }
    if (receives_ == 0) {
      return link_.error(StatusCode::kUnavailable, "connect", "the peer ended the connection",
                         "see the peer's log, and connect again");
    }
  }
  if (sender_->failed()) return sender_->failure();
  return std::optional<ControlMessage>();
}

Status VerbsLane::begin(const HelloMessage& peer) {
  peer_ = peer;
  if (peer_.flush_by_atomic && adapter_.address().limits.atomic_cap == IBV_ATOMIC_NONE) {
    return link_.error(StatusCode::kUnavailable, "connect",
                       "the peer's memory is relaxed-ordered, so a flush requires an atomic, and " +
                           adapter_.address().device + " has no atomics",
                       "set relaxed_ordering to false at the peer, or use tcp");
  }
  sender_->begin(id_->qp, queue_share_, peer_);
  return Status();
}

void VerbsLane::on_work(const ibv_wc& completion, std::uint32_t number) {
  const core::Lock lock(mutex_);
  if ((number & kReceiveBit) == 0) {
    sender_->on_sent(completion, number, finished_);
  } else {
    on_received_locked(completion, number & ~kReceiveBit);
  }
}

void VerbsLane::on_looked_at() {
  {
    const core::Lock lock(mutex_);
    post_receives_locked();
    sender_->pump(finished_);
  }
  if (current != this) (void)::eventfd_write(bell_.get(), 1);
}

void VerbsLane::on_received_locked(const ibv_wc& completion, std::uint32_t buffer) {
  if (receives_ > 0) --receives_;
  if (completion.status != IBV_WC_SUCCESS) {
    // Flushed: the connection is over. Anything else is a message that does not fit its buffer.
    if (completion.status != IBV_WC_WR_FLUSH_ERR) {
      break_locked(status_of(adapter_.library(), completion, "receive", place()));
    }
    return;
  }
  free_receives_.push_back(buffer);
  if (completion.opcode == IBV_WC_RECV_RDMA_WITH_IMM) {
    Notification notification;
    notification.tag = ntohl(completion.imm_data);
    arrive_locked(std::move(notification), /*is_record=*/false);
    return;
  }
  // Only the adapter writes there, and it has finished.
  on_message_locked({memory_->receive_buffer(buffer), completion.byte_len});
}

void VerbsLane::on_message_locked(ByteView bytes) {
  auto header = MessageHeader::from_bytes(bytes);
  if (!header.ok()) return break_locked(header.status());
  const std::byte* const payload = bytes.data + MessageHeader::kBytes;
  std::vector<std::byte> copied(payload, bytes.data + bytes.size);
  switch (header->type) {
    case MessageType::kNotify:
    case MessageType::kMessage:
    case MessageType::kRecord: {
      Notification notification;
      notification.tag = header->tag;
      notification.message = std::move(copied);
      arrive_locked(std::move(notification), header->type == MessageType::kRecord);
      return;
    }
    case MessageType::kCredit:
      if (!sender_->add_credit(header->value)) {
        break_locked(link_.error(StatusCode::kProtocolError, "read from the peer",
                                 "the peer returns more credit than it received",
                                 core::kBrokenRule));
      }
      return;
    case MessageType::kEnd:
      end_seen_ = true;
      return;
    default:
      if (control_.size() >= kReservedReceives) {
        return break_locked(link_.error(StatusCode::kProtocolError, "read from the peer",
                                        "the peer sends too many messages at the same time",
                                        core::kBrokenRule));
      }
      control_.push_back({*header, std::move(copied)});
  }
}

void VerbsLane::arrive_locked(Notification&& notification, bool is_record) {
  if (++unpaid_ > adapter_.limits().credits) {
    return break_locked(link_.error(StatusCode::kProtocolError, "read from the peer",
                                    "the peer sends notifications without credit for them",
                                    core::kBrokenRule));
  }
  notification.lane = index_;
  received_.push_back({std::move(notification), is_record});
}

void VerbsLane::break_locked(const Status& reason) {
  if (broken_.ok()) broken_ = reason;
}

Completion VerbsLane::post(const Operation& operation) {
  return operation.kind == OperationKind::kFlush ? link_.flush() : sender_->post(operation);
}

Progress VerbsLane::poll(EventSink& sink) {
  Progress progress;
  if (polling_.test_and_set(std::memory_order_acquire)) return progress;
  {
    const CurrentLane mark(this);
    queue_->try_look();
    tell_finished();
    serve_control();
    hand_over(sink, progress);
    look_for_end();
    const core::Lock lock(mutex_);
    progress.drained =
        received_.empty() && (end_seen_ || (nothing_comes_locked() && told_flushed_.load()));
  }
  polling_.clear();
  return progress;
}

void VerbsLane::tell_finished() {
  Finished finished;
  {
    const core::Lock lock(mutex_);
    finished.swap(finished_);
  }
  tell(std::move(finished));
}

void VerbsLane::serve_control() {
  while (true) {
    ControlMessage next;
    {
      const core::Lock lock(mutex_);
      if (control_.empty()) return;
      next = std::move(control_.front());
      control_.pop_front();
    }
    Status taken;
    if (next.header.type == MessageType::kRevoke) {
      taken = link_.take_revoke(next.header.value, {next.payload.data(), next.payload.size()});
    } else if (next.header.type == MessageType::kRevoked) {
      taken = link_.take_revoked(next.header.value);
    } else {
      taken = link_.error(StatusCode::kProtocolError, "read from the peer",
                          "the peer sent a second greeting", core::kBrokenRule);
    }
    if (taken.ok()) continue;
    const core::Lock lock(mutex_);
    break_locked(taken);
  }
}

void VerbsLane::hand_over(EventSink& sink, Progress& progress) {
  while (sink.has_room()) {
    ReceivedNotification received;
    {
      const core::Lock lock(mutex_);
      if (received_.empty()) break;
      received = std::move(received_.front());
      received_.pop_front();
    }
    ++progress.delivered;
    ++owed_;
    std::move(received).deliver(sink);
  }
  if (owed_ < std::max<std::uint32_t>(1, adapter_.limits().credits / 4) || over_.load()) return;
  {
    const core::Lock lock(mutex_);
    unpaid_ -= owed_;
    // Before the peer may use them: another thread's look may not have come to it.
    post_receives_locked();
  }
  if (sender_->control(MessageType::kCredit, std::exchange(owed_, 0))) return;
  const core::Lock lock(mutex_);
  break_locked(link_.error(StatusCode::kProtocolError, "exchange messages with the peer",
                           "the peer sends requests and receives no answers", core::kBrokenRule));
}

void VerbsLane::look_for_end() {
  Status broken;
  bool empty = false;
  bool in_good_order = false;
  {
    const core::Lock lock(mutex_);
    broken = broken_;
    empty = nothing_comes_locked();
    in_good_order = end_seen_;
  }
  if (over_.load() && empty && !told_flushed_.exchange(true)) link_.lane_flushed();
  if (told_end_.load()) return;
  const SendQueue::Cause cause = sender_->cause();
  if (broken.ok() && cause == SendQueue::Cause::kRule) broken = sender_->failure();
  if (!broken.ok()) {
    told_end_.store(true);
    shut();
    sender_->end(broken);
    link_.lane_broken(broken);
    return;
  }
  // Receives come back by themselves when the queue pair has failed.
  if (!over_.load() && !sender_->failed() && !empty) return;
  shut();
  Status reason = sender_->failure();
  if (reason.ok()) {
    reason = link_.error(StatusCode::kPeerDead, core::kUseTheChannel,
                         "the peer's process ended, or its host closed the connection",
                         "restart the peer and connect again");
  }
  sender_->end(reason);
  if (!empty) return;  // what has arrived is not all known yet
  told_end_.store(true);
  if (!in_good_order) {
    link_.lane_ended(index_, reason, /*proven=*/cause == SendQueue::Cause::kPeerGone);
  }
}

Doorbell VerbsLane::arm() {
  const CurrentLane mark(this);
  eventfd_t rings = 0;
  (void)::eventfd_read(bell_.get(), &rings);
  queue_->arm();
  queue_->look();
  Doorbell doorbell;
  doorbell.fd = sleep_.get();
  const core::Lock lock(mutex_);
  doorbell.holds = !received_.empty();
  const bool news =
      nothing_comes_locked() || (!over_.load() && (!broken_.ok() || sender_->failed()));
  doorbell.ready = !finished_.empty() || !control_.empty() ||
                   (news && (!told_end_.load() || !told_flushed_.load()));
  return doorbell;
}

void VerbsLane::shut() {
  // The thread that returns knows that the queue pair is in error, even if another thread put it
  // there.
  const core::Lock lock(shut_mutex_);
  if (id_ == nullptr || id_->qp == nullptr || over_.load()) return;
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_ERR;
  (void)adapter_.library().modify_qp(id_->qp, &attributes, IBV_QP_STATE);
  over_.store(true);
  (void)adapter_.library().disconnect(id_);  // tells the peer
}

void VerbsLane::wait_for_flush(core::Deadline deadline) {
  while (!deadline.expired()) {
    queue_->look();
    {
      const core::Lock lock(mutex_);
      if (nothing_comes_locked()) return;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void VerbsLane::fail(const Status& reason) {
  {
    const core::Lock lock(mutex_);
    break_locked(reason);
  }
  // No receive comes back any more, and the queue's channel may be readable for ever.
  device_gone_.store(true);
  (void)::epoll_ctl(sleep_.get(), EPOLL_CTL_DEL, queue_->fd(), nullptr);
  (void)::eventfd_write(bell_.get(), 1);
}

void VerbsLane::close(const Status& reason) {
  if (id_ == nullptr) return;
  shut();
  {
    // The thread that gives receives back, on a look for another lane, has done so; nothing begins
    // again.
    const core::Lock lock(mutex_);
  }
  if (sender_ != nullptr) sender_->end(reason);
  if (id_->qp != nullptr) adapter_.library().destroy_qp(id_);
  if (queue_share_.client != 0) {
    queue_->look();  // what it still holds of this lane would take others' room
    queue_->remove(queue_share_);
  }
  if (sender_ != nullptr) sender_->settle(reason);
  tell_finished();
  (void)adapter_.library().destroy_id(id_);
  id_ = nullptr;
}

}  // namespace farwrite::fabric::verbs
