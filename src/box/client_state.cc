#include "box/client_state.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <utility>

#include "box/ordered_reads.h"
#include "box/segment_state.h"
#include "core/channel_end.h"
#include "core/deadline.h"
#include "core/inside.h"
#include "core/interrupt.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/poll_until.h"
#include "farwrite/internal/late.h"
#include "memory/copy.h"
#include "memory/warm_targets.h"

namespace farwrite::box {
namespace {

// How long the end of the last handle waits for the server.
constexpr std::chrono::nanoseconds kSettle = std::chrono::seconds(1);
// What a call with a short timeout allows for an answer: a round trip on a slow network, and bytes
// at 100 MB/s.
constexpr std::chrono::nanoseconds kAnswer = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds kAnswerPerByte = std::chrono::nanoseconds(10);

// The server's sentence, which does not name it: "find a segment at box (127.0.0.1:7600): ...".
Status answered_by(const std::string& server, const Status& answer) {
  const std::string& sentence = answer.message();
  const std::size_t end = sentence.find(": ");
  if (end == std::string::npos) return answer;
  return Status(answer.code(), sentence.substr(0, end) + " at " + server + sentence.substr(end));
}

}  // namespace

Result<std::shared_ptr<ClientState>> ClientState::connect(const Endpoint& server,
                                                          const ClientOptions& options) {
  Result<Device> device = Device::open(options.device);
  if (!device.ok()) return device.status();
  Result<Channel> channel = device->connect(server, options.timeout);
  if (!channel.ok()) return channel.status();
  if (channel->peer().service != kService) {
    return Status::error(StatusCode::kUnavailable, {"connect", channel->peer_name()},
                         "no box server answers there: it is the device of another program",
                         "give the endpoint of a box, which `farwrite box serve` prints and its "
                         "server has as `endpoint`");
  }
  // Not make_shared: the constructor is private.
  std::shared_ptr<ClientState> state(
      new ClientState(*std::move(device), *std::move(channel), options.timeout));
  // Weak: a callback must not be what keeps the channel open.
  const std::weak_ptr<ClientState> weak = state;
  state->taker_ = std::make_shared<ReplyTaker>(state->channel_, [weak](Notification notification) {
    if (const auto self = weak.lock()) self->take(std::move(notification));
  });
  FARWRITE_RETURN_IF_ERROR(state->taker_->start());
  FARWRITE_RETURN_IF_ERROR(state->channel_.on_end([weak](bool, const Status& reason) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->taker_->finish([weak, reason] {
      if (const auto ended = weak.lock()) ended->end(reason);
    });
  }));
  return state;
}

ClientState::~ClientState() {
  if (fork_guard_.in_forked_child()) return;
  const Status status = close(kSettle);
  if (!status.ok()) core::log(core::LogLevel::kInfo, "box client: " + status.message());
}

core::Deadline ClientState::answer_by(const core::Deadline& call, std::uint64_t bytes) const {
  if (call.is_never() && timeout_ >= kForever) return call;
  const std::chrono::nanoseconds moved = kAnswerPerByte * static_cast<std::int64_t>(bytes);
  if (call.is_never()) return core::Deadline::after(timeout_ + moved);
  return core::Deadline::after(std::max(call.remaining(), std::min(timeout_, kAnswer) + moved));
}

core::Deadline ClientState::others_by(const core::Deadline& call) const {
  return call.is_never() ? call : answer_by(call);
}

std::uint64_t ClientState::add_pending(Verb verb, OnAnswer on_answer) {
  if (Status forked = fork_guard_.check(name_of(verb)); !forked.ok()) {
    on_answer(std::move(forked));
    return 0;
  }
  core::Lock lock(mutex_);
  if (!ended_.ok()) {
    const Status reason = ended_;
    lock.unlock();
    on_answer(core::end_of(name_of(verb), reason));
    return 0;
  }
  const std::uint64_t id = next_id_++;
  pending_.emplace(id, PendingReply{verb, std::move(on_answer)});
  lock.unlock();
  if (!taker_->waits_here()) taker_->make_way();  // the answer may call the program
  return id;
}

void ClientState::fail_with(const Completion& sent, std::uint64_t id) {
  sent.on_done([weak = weak_from_this(), id](const Status& status) {
    if (status.ok()) return;
    if (const auto self = weak.lock()) self->fail(id, status);
  });
}

void ClientState::fail(std::uint64_t id, const Status& reason) {
  PendingReply pending;
  {
    const core::Lock lock(mutex_);
    const auto found = pending_.find(id);
    if (found == pending_.end()) return;
    pending = std::move(found->second);
    pending_.erase(found);
  }
  answer(pending.on_answer, core::end_of(name_of(pending.verb), reason));
}

void ClientState::withdraw(std::uint64_t id, const Status& reason) {
  tell({.verb = Verb::kCancel, .number = id});
  fail(id, reason);
}

void ClientState::answer(const OnAnswer& on_answer, Result<ReceivedReply> answer) {
  {
    const core::Inside inside(this);
    on_answer(std::move(answer));
  }
  channel_.wake_drivers();
}

Status ClientState::check_wait() const {
  if (!core::Inside::is(this)) return Status();
  return Status::error(
      StatusCode::kFailedPrecondition, {.operation = "use the box", .peer = channel_.peer_name()},
      "a callback called its own client and would wait for the server, whose "
      "answers come in this very thread",
      "post changes without waiting, or hand the call to another thread or client");
}

bool ClientState::forget(std::uint64_t id, OnAnswer late) {
  OnAnswer dropped;  // what it holds is destroyed without the lock
  const core::Lock lock(mutex_);
  const auto found = pending_.find(id);
  if (found == pending_.end()) return false;
  dropped = std::exchange(found->second.on_answer, std::move(late));
  if (found->second.on_answer == nullptr) pending_.erase(found);
  return true;
}

void ClientState::discard(std::uint64_t key) {
  post({.verb = Verb::kFree, .key = key}, [](const Result<ReceivedReply>&) {});
}

ClientState::OnAnswer ClientState::free_created(const Request& request) {
  if (request.verb != Verb::kCreate || request.creation != Creation::kExclusive) return nullptr;
  return [weak = weak_from_this()](const Result<ReceivedReply>& late) {
    const auto self = weak.lock();
    if (self == nullptr || !late.ok()) return;
    const Reply& reply = late.value().reply;
    if (reply.status.ok()) self->discard(reply.key);
  };
}

std::uint64_t ClientState::post(Request request, OnAnswer on_answer) {
  request.id = add_pending(request.verb, std::move(on_answer));
  if (request.id == 0) return 0;
  const std::vector<std::byte> message = request.encode();
  fail_with(channel_.send({message.data(), message.size()}), request.id);
  return request.id;
}

std::uint64_t ClientState::post(Request request, ByteView memory, std::function<void()> returned,
                                OnAnswer on_answer) {
  request.id = add_pending(request.verb, std::move(on_answer));
  if (request.id == 0) return 0;
  const std::vector<std::byte> message = request.encode();
  fail_with(channel_.lend({message.data(), message.size()}, memory, std::move(returned)),
            request.id);
  return request.id;
}

void ClientState::tell(Request request) {
  if (fork_guard_.in_forked_child()) return;  // the parent's to say, and so is the mutex
  {
    const core::Lock lock(mutex_);
    if (!ended_.ok()) return;
    request.id = next_id_++;
  }
  const std::vector<std::byte> message = request.encode();
  // If the connection has ended, the server has forgotten what this would end.
  static_cast<void>(channel_.tell({message.data(), message.size()}));
}

Result<ClientState::ReceivedReply> ClientState::call(Request request,
                                                     std::chrono::nanoseconds timeout) {
  const Verb verb = request.verb;
  OnAnswer late = free_created(request);
  return await(
      verb, timeout,
      [&](OnAnswer on_answer) { return post(std::move(request), std::move(on_answer)); },
      std::move(late));
}

Result<ClientState::ReceivedReply> ClientState::call(Request request, const Lendable& lendable) {
  const Verb verb = request.verb;
  OnAnswer late = free_created(request);
  return await(
      verb, timeout_,
      [&](OnAnswer on_answer) {
        return post(
            std::move(request), lendable.memory, [owner = lendable.owner] {}, std::move(on_answer));
      },
      std::move(late));
}

Result<ClientState::ReceivedReply> ClientState::await(
    Verb verb, std::chrono::nanoseconds timeout, const std::function<std::uint64_t(OnAnswer)>& post,
    OnAnswer late) {
  FARWRITE_RETURN_IF_ERROR(check_wait());
  struct SharedReply {
    core::Mutex mutex{core::LockRank::kBox};
    core::CondVar changed;
    std::optional<Result<ReceivedReply>> answer FW_GUARDED_BY(mutex);
    std::atomic<bool> come = false;  // answer.has_value()
  };
  const auto shared = std::make_shared<SharedReply>();
  const core::Deadline deadline = core::Deadline::after(timeout);
  std::uint64_t id = 0;
  const auto send = [&] {
    id = post([shared](Result<ReceivedReply> answer) {
      {
        const core::Lock lock(shared->mutex);
        shared->answer.emplace(std::move(answer));
        shared->come.store(true);
      }
      shared->changed.notify_one();
    });
  };
  const auto come = [&] { return shared->come.load(); };
  drive(send, come, deadline);
  core::Lock lock(shared->mutex);
  if (!core::Interrupt::wait(shared->changed, shared->mutex, deadline, come)) {
    lock.unlock();
    if (forget(id, std::move(late))) {
      if (verb == Verb::kWaitVersion || verb == Verb::kAttachName) {
        tell({.verb = Verb::kCancel, .number = id});
      }
      return internal::late({.operation = name_of(verb), .peer = channel_.peer_name()},
                            channel_.peer_state(), "the box has not answered in time",
                            "check that the server runs, or allow more time");
    }
    // The answer came at the last moment.
    lock.lock();
    shared->changed.wait(shared->mutex, come);
  }
  Result<ReceivedReply> answer = std::move(*shared->answer);
  if (answer.ok() && !answer->reply.status.ok()) return answer->reply.status;
  return answer;
}

void ClientState::drive(const std::function<void()>& post, const std::function<bool()>& over,
                        core::Deadline deadline) {
  if (fork_guard_.in_forked_child()) return post();
  const auto alone = [this] {
    const core::Lock lock(mutex_);
    return pending_.empty();
  };
  taker_->drive(post, over, alone, deadline);
}

void ClientState::take(Notification notification) {
  Result<Reply> reply = Reply::decode({notification.message.data(), notification.message.size()});
  if (!reply.ok()) return end(reply.status());
  if (reply->id == 0) {
    for (const auto& segment : segments()) {
      if (segment->info().key == reply->key) segment->forget_buffers();
    }
    return;
  }
  OnAnswer on_answer;
  {
    const core::Lock lock(mutex_);
    const auto found = pending_.find(reply->id);
    if (found != pending_.end()) {
      on_answer = std::move(found->second.on_answer);
      pending_.erase(found);
    }
  }
  reply->status = answered_by(channel_.peer_name(), reply->status);
  ReceivedReply come = {.reply = *std::move(reply), .lent = std::move(notification.lent)};
  if (on_answer == nullptr) return give_back(come);
  answer(on_answer, std::move(come));
}

void ClientState::give_back(const ReceivedReply& late) {
  const Reply& reply = late.reply;
  if (reply.number != 0) {  // a lease, which `late.lent` gives back
    tell({.verb = Verb::kRelease, .number = reply.number});
  } else if (reply.attaches) {
    tell({.verb = Verb::kDetach, .key = reply.key});
  }
}

void ClientState::end(const Status& reason) {
  std::map<std::uint64_t, PendingReply> pending;
  Status ended;
  {
    const core::Lock lock(mutex_);
    if (!ended_.ok()) return;
    ended_ = reason.ok() ? Status::error(StatusCode::kUnavailable,
                                         {core::kUseTheChannel, channel_.peer_name()},
                                         "the server has closed the connection", "connect again")
                         : reason;
    ended = ended_;
    over_.store(true);
    pending.swap(pending_);
  }
  for (auto& [id, each] : pending) {
    answer(each.on_answer, core::end_of(name_of(each.verb), ended));
  }
}

Status ClientState::check(std::string_view operation) {
  if (!over_.load()) {
    if (channel_.peer_state() < PeerState::kClosed) return Status();
    // Its handler is called behind the last answers. What is posted by now fails with the reason.
    return core::end_of(operation, channel_.flush().wait());
  }
  const core::Lock lock(mutex_);
  return core::end_of(operation, ended_);
}

Result<std::vector<SegmentInfo>> ClientState::infos(const ReceivedReply& answer) {
  if (!answer.lent.valid() || !answer.reply.body.empty()) {
    return decode_infos({answer.reply.body.data(), answer.reply.body.size()});
  }
  const core::Deadline deadline = core::Deadline::after(timeout_);
  // A read would wait for a stopped server without limit until its memory is mapped.
  const Status mapped = channel_.alias(answer.lent, 0, 0, deadline.remaining()).status();
  if (mapped.code() == StatusCode::kDeadlineExceeded) return mapped;
  const auto body = std::make_shared<std::vector<std::byte>>(answer.lent.size());
  OrderedReads read(*this);
  read.add(answer.lent, 0, {body->data(), body->size()}, body);
  FARWRITE_RETURN_IF_ERROR(read.wait(deadline));
  return decode_infos({body->data(), body->size()});
}

Result<ClientState::Lendable> ClientState::lendable(ByteView memory) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("change a segment"));
  FARWRITE_RETURN_IF_ERROR(check("change a segment"));
  if (device_.contains(memory.data) && device_.contains(memory.data + memory.size - 1)) {
    return Lendable{.memory = memory, .owner = nullptr};
  }
  const Result<std::shared_ptr<std::byte>> room = device_.allocate_owned(memory.size);
  if (!room.ok()) {
    FARWRITE_RETURN_IF_ERROR(check("change a segment"));  // its end may have come meanwhile
    return Status::error(room.status().code(), {.operation = "change a segment"},
                         "no memory to copy " + std::to_string(memory.size) +
                             " bytes into: " + room.status().message(),
                         "or wait for earlier changes, or take the bytes from memory that the "
                         "client allocated");
  }
  std::byte* const staged = room.value().get();
  if (memory.size <= memory::WarmTargets::kCacheBytes) {
    // The server reads it at once: streaming stores would send it past the caches.
    std::memcpy(staged, memory.data, memory.size);
  } else {
    copy_bytes(staged, memory.data, memory.size);
  }
  counters_.staged_bytes.fetch_add(memory.size, std::memory_order_relaxed);
  return Lendable{.memory = {staged, memory.size}, .owner = room.value()};
}

void ClientState::add_segment(const std::shared_ptr<SegmentState>& segment) {
  const core::Lock lock(mutex_);
  if (segments_.size() >= next_sweep_) {
    std::erase_if(segments_, [](const auto& known) { return known.expired(); });
    next_sweep_ = 2 * segments_.size() + 1;
  }
  segments_.push_back(segment);
}

std::vector<std::shared_ptr<SegmentState>> ClientState::segments() {
  std::vector<std::shared_ptr<SegmentState>> live;
  const core::Lock lock(mutex_);
  for (const auto& weak : segments_) {
    if (auto segment = weak.lock()) live.push_back(std::move(segment));
  }
  return live;
}

Result<std::shared_ptr<const void>> ClientState::begin_view() {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("read"));
  // Its end is wanted, whatever it looks at.
  std::shared_ptr<const void> view(this,
                                   [self = shared_from_this()](const void*) { self->end_view(); });
  views_.fetch_add(1);
  if (closed_.load()) return core::end_of("read", closed());
  return view;
}

void ClientState::end_view() {
  if (views_.fetch_sub(1) != 1 || !closed_.load()) return;
  // Nothing is left to tell of a server that did not settle.
  static_cast<void>(device_.close(kSettle));
}

Status ClientState::closed() {
  return Status::error(StatusCode::kCancelled, {core::kUseTheChannel},
                       "this side has closed the connection", "connect again");
}

Status ClientState::close(std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("close a box client"));
  FARWRITE_RETURN_IF_ERROR(check_wait());
  end(closed());
  // Segments may outlive this. The server keeps a connection's descriptors as long as its client
  // holds leases.
  gate_.close();
  (void)gate_.wait_until_empty(core::Deadline::never());  // nothing in it waits
  for (const auto& segment : segments()) segment->release();
  const core::Deadline deadline = core::Deadline::after(timeout);
  FARWRITE_RETURN_IF_ERROR(channel_.close(timeout));
  // The end of the device ends the leases on what changes lent, but not the server's reading.
  static_cast<void>(core::poll_until(
      [this] {
        const ChannelStats stats = channel_.stats();
        return stats.leases_granted == stats.leases_released;
      },
      deadline));
  closed_.store(true);
  return views_.load() == 0 ? device_.close(deadline.remaining()) : Status();
}

}  // namespace farwrite::box
