#include "transfer/sender_state.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>
#include <vector>

#include "core/completion_state.h"
#include "core/log.h"
#include "core/long_wait.h"
#include "core/mutex.h"
#include "device/name_table.h"
#include "farwrite/internal/late.h"
#include "gpu/local_memory.h"
#include "memory/copy.h"
#include "transfer/offer.h"
#include "transfer/received.h"
#include "transfer/slot_head.h"
#include "transfer/tail_flag.h"

namespace farwrite::transfer {
namespace {

constexpr std::string_view kOpenSender = "open a tensor sender";
constexpr std::string_view kSend = "send a tensor";
constexpr std::string_view kClose = "close a tensor sender";
// Between attempts to send what finds no slot and no memory.
constexpr std::chrono::nanoseconds kShortestRetry = std::chrono::microseconds(50);
constexpr std::chrono::nanoseconds kLongestRetry = std::chrono::milliseconds(2);

Status unfit(const std::string& cause, std::string_view remedy) {
  return Status::error(StatusCode::kInvalidArgument, {kSend}, cause, remedy);
}

// "(2, 3)"
std::string shown(const std::vector<std::uint64_t>& dims) {
  std::string text;
  for (const std::uint64_t dim : dims) {
    if (!text.empty()) text += ", ";
    text += std::to_string(dim);
  }
  return "(" + text + ")";
}

// "\"<f4\" of 4 bytes". The peer's text may have any length and any bytes.
std::string shown_type(const TensorSpec& spec) {
  constexpr std::size_t kLongest = 80;
  std::string text = spec.dtype;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  std::replace_if(text.begin(), text.end(), [](unsigned char byte) { return byte < ' '; }, '?');
  return "\"" + text + "\" of " + std::to_string(spec.item_bytes) +
         (spec.item_bytes == 1 ? " byte" : " bytes");
}

bool failed(const Completion& completion) { return completion.done() && !completion.wait().ok(); }

}  // namespace

Result<std::shared_ptr<SenderState>> SenderState::open(const Device& device, const Channel& channel,
                                                       std::string_view name,
                                                       std::chrono::nanoseconds timeout) {
  if (!channel.valid() || !device.valid()) {
    return Status::error(StatusCode::kInvalidArgument, {kOpenSender},
                         "the device or channel handle is empty", "use an open device and channel");
  }
  FARWRITE_RETURN_IF_ERROR(device::check_name(kOpenSender, name));
  FARWRITE_RETURN_IF_ERROR(Port::check_free(channel));
  const core::Deadline deadline = core::Deadline::after(timeout);
  std::shared_ptr<SenderState> self(new SenderState(device, channel, name));
  FARWRITE_RETURN_IF_ERROR(self->fork_guard_.check(kOpenSender));
  while (true) {
    FARWRITE_RETURN_IF_ERROR(self->claim(deadline));
    Engine& engine = self->port_->engine();
    const Status opened =
        engine.open_slots(self->key_, deadline, self->edge_->record.lane, &self->requests_);
    const bool gone = opened.code() == StatusCode::kNotFound ||
                      opened.code() == StatusCode::kFailedPrecondition;  // at the fabric
    if (!opened.ok() && !gone) return opened;
    {
      const core::Lock lock(self->port_->mutex());
      if (opened.ok() && !self->edge_->closed) return self;
      self->edge_->closed = true;  // the record that says so comes, and maybe a new edge behind it
    }
    engine.stop_pushing(self->key_);
    self->edge_ = nullptr;
  }
}

SenderState::SenderState(const Device& device, const Channel& channel, std::string_view name)
    : device_(device),
      channel_(channel),
      port_(Port::of(channel)),
      name_(name),
      registrations_before_(Port::registrations_of(channel)),
      max_message_bytes_(channel.max_message_bytes()),
      most_lent_bytes_(Port::send_limit_of(channel)) {}

SenderState::~SenderState() {
  if (fork_guard_.in_forked_child()) return;
  (void)end_stream(/*abandoned=*/true);
  if (edge_ != nullptr) port_->engine().stop_pushing(key_);
}

Status SenderState::claim(core::Deadline deadline) {
  port_->drain(channel_);
  bool taken = false;
  const auto edge_is_open = [&] {
    port_->mutex().is_held_here();
    const std::shared_ptr<PeerEdge> edge = port_->find_edge(name_);
    // An edge that had a sender may be closed already, and opened again, and the records of that
    // are on their way.
    taken = edge != nullptr && edge->claimed;
    if (edge == nullptr || taken) return false;
    edge->claimed = true;
    edge_ = edge;
    return true;
  };
  const auto unclaimed = [&] {
    if (taken) {
      return Status::error(StatusCode::kAlreadyExists, {kOpenSender},
                           "\"" + name_ + "\" has, or had, a sender on this channel",
                           "let the receiver open the edge again, or use another name");
    }
    return late(kOpenSender, "the peer has opened no receiver named \"" + name_ + "\" in time",
                "wait longer, or check that both sides use the same name");
  };
  const core::Deadline quiet = core::Deadline::after(core::kLongWait);
  Status waited = port_->wait(channel_, edge_is_open, deadline.earlier(quiet));
  if (waited.code() == StatusCode::kDeadlineExceeded && quiet.expired() && !deadline.expired()) {
    core::tell_long_wait("still waiting, for ", deadline, unclaimed().message());
    waited = port_->wait(channel_, edge_is_open, deadline);
  }
  if (waited.code() == StatusCode::kDeadlineExceeded) return unclaimed();
  FARWRITE_RETURN_IF_ERROR(waited);
  key_ = key_of(edge_->record.edge);
  return Status();
}

Status SenderState::late(std::string_view operation, const std::string& cause,
                         std::string_view remedy) const {
  return internal::late({operation, channel_.peer_name()}, channel_.peer_state(), cause, remedy);
}

Status SenderState::check(const TensorSpec& spec, ByteView bytes) const {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check(kSend));
  Result<std::uint64_t> size = spec.bytes();
  if (!size.ok()) return size.status();
  if (*size != bytes.size) {
    return unfit("the shape has " + std::to_string(*size) + " bytes and " +
                     std::to_string(bytes.size) + " were given",
                 "give the bytes of the whole tensor");
  }
  const EdgeRecord& edge = edge_->record;
  if (edge.kind == EdgeKind::kDynamic) return Status();
  if (spec.dtype != edge.spec.dtype || spec.item_bytes != edge.spec.item_bytes) {
    return unfit("its dtype is " + shown_type(spec) + ", and the receiver of \"" + name_ +
                     "\" takes " + shown_type(edge.spec) + " alone",
                 "send that, or let the receiver open the edge by its name alone, as dynamic");
  }
  if (edge.kind == EdgeKind::kStatic) {
    if (spec.dims == edge.spec.dims) return Status();
    return unfit("its shape is " + shown(spec.dims) + ", and the receiver of \"" + name_ +
                     "\" takes " + shown(edge.spec.dims) + " alone",
                 "send that, or let the receiver open without a shape, as bounded or dynamic");
  }
  if (bytes.size > edge.max_bytes) {
    return unfit(std::to_string(bytes.size) + " bytes are more than the " +
                     std::to_string(edge.max_bytes) + " that the receiver of \"" + name_ +
                     "\" takes",
                 "let the receiver open it with a larger max_bytes");
  }
  return Status();
}

// Under the port's mutex.
Status SenderState::over() const {
  if (edge_->closed) {
    return Status::error(StatusCode::kUnavailable, {kSend},
                         "the receiver of \"" + name_ + "\" has closed", "open the edge again");
  }
  return port_->ended();
}

Completion SenderState::send(const TensorSpec& spec, ByteView bytes,
                             std::chrono::nanoseconds timeout) {
  if (Status bad = check(spec, bytes); !bad.ok()) return Completion(std::move(bad));
  const core::Deadline deadline = core::Deadline::after(timeout);
  Attempt attempt;
  std::chrono::nanoseconds pause = kShortestRetry;
  bool hopeless = false;
  while (true) {
    port_->drain(channel_);  // not under sending_: a handler may send
    Completion sent = send_now(spec, bytes, attempt);
    const bool refused = failed(sent) && sent.wait().code() == StatusCode::kResourceExhausted;
    if (!refused || timeout.count() <= 0 || (hopeless && !attempt.hopeful)) return sent;
    if (deadline.expired()) {
      return Completion(late(
          kSend,
          "the receiver of \"" + name_ + "\" gave nothing back in time: " + sent.wait().message(),
          "or wait longer"));
    }
    // Only what the receiver gives back can help now, so what it holds is looked at before the
    // attempt.
    hopeless = bytes.size > 0 && !attempt.hopeful && receiver_holds_nothing();
    if (!hopeless) wait_for_room(bytes.size, core::Deadline::after(pause).earlier(deadline));
    pause = std::min(2 * pause, kLongestRetry);
  }
}

bool SenderState::receiver_holds_nothing() {
  return device_.stats().leases_held_by_peers == 0 &&
         port_->engine().credits(key_).available >= edge_->record.slots;
}

// Memory comes back without a notification, so the caller tries again after a pause.
void SenderState::wait_for_room(std::uint64_t bytes, core::Deadline deadline) {
  const bool had_slot = port_->engine().has_credit(key_, bytes);  // and the lane took nothing
  const auto room = [&] {
    port_->engine().flush();
    return edge_->closed || (!had_slot && port_->engine().has_credit(key_, bytes));
  };
  (void)port_->wait(channel_, room, deadline, /*polled=*/true);  // send_now() tells of an end
  const core::Lock sending(sending_);
  const auto now = std::chrono::steady_clock::now();
  if (!refused_since_.has_value()) refused_since_ = now;
  if (now - *refused_since_ < core::kLongWait || std::exchange(long_wait_told_, true)) return;
  core::log(
      core::LogLevel::kWarning,
      "send a tensor: the receiver of \"" + name_ +
          "\" has given back no slot, memory or room for a second, and this thread waits; let "
          "it receive, and drop what it has received");
}

Completion SenderState::send_now(const TensorSpec& spec, ByteView bytes, Attempt& attempt) {
  attempt.hopeful = false;
  core::Lock sending(sending_);
  if (closed_) {
    return Completion(Status::error(StatusCode::kFailedPrecondition, {kSend},
                                    "the sender is closed", "open it again"));
  }
  std::uint32_t round = 0;
  bool may_be_eager = false;
  {
    const core::Lock lock(port_->mutex());
    if (Status end = over(); !end.ok()) return Completion(std::move(end));
    round = edge_->round;
    may_be_eager = last_sequence_ - std::min(edge_->taken, last_sequence_) < kMaxEagerAhead;
  }
  const std::optional<CreditTable::Taken> taken = port_->engine().take_credit(key_, bytes.size);
  ++last_sequence_;
  Completion sent = taken.has_value() ? push(*taken, spec, bytes)
                                      : offer(round, may_be_eager, spec, bytes, attempt);
  if (!failed(sent)) {
    refused_since_.reset();
    return sent;
  }
  --last_sequence_;
  sending.unlock();
  port_->drain(channel_);
  if (taken.has_value()) port_->engine().put_back(*taken, edge_->record.lane);
  const core::Lock lock(port_->mutex());
  // The receiver may have closed while we wrote: that is the error to report.
  if (Status end = over(); !end.ok()) return Completion(std::move(end));
  return sent;
}

Completion SenderState::push(const CreditTable::Taken& taken, const TensorSpec& spec,
                             ByteView bytes) {
  std::vector<std::byte> description = PushDescription{last_sequence_, spec.dims}.encode();
  Completion sent =
      edge_->record.tail_flag
          ? write_with_tail_flag(taken, std::move(description), bytes)
          : port_->engine().push(taken, std::move(description), bytes, edge_->record.lane);
  if (!failed(sent)) pushed_.add();
  return sent;
}

// One write must hold it all, so the tensor is copied once more.
Completion SenderState::write_with_tail_flag(const CreditTable::Taken& taken,
                                             std::vector<std::byte> description, ByteView bytes) {
  const auto head =
      SlotHead{taken.credit.slot, taken.credit.generation, bytes.size, std::move(description)}
          .encode();
  const std::uint64_t flag_at = tail_flag_offset(bytes.size);
  const auto whole = std::make_shared<std::vector<std::byte>>(flag_at + kTailFlagBytes);
  std::memcpy(whole->data(), head.data(), head.size());
  if (Status bad = copy_memory(whole->data() + head.size(), bytes.data, bytes.size); !bad.ok()) {
    return Completion(std::move(bad));
  }
  const std::uint64_t flag = tail_flag_value(taken.credit.generation);
  std::memcpy(whole->data() + flag_at, &flag, sizeof(flag));
  staged_.add();
  allocations_.add();
  Completion written =
      channel_.write({whole->data(), whole->size()}, taken.target, 0, edge_->record.lane);
  keep_until_settled(written, whole);
  return written;
}

Completion SenderState::offer(std::uint32_t round, bool may_be_eager, const TensorSpec& spec,
                              ByteView bytes, Attempt& attempt) {
  OfferRecord record;
  record.edge = edge_->record.edge;
  record.round = round;
  record.sequence = last_sequence_;
  record.epoch = device_.epoch();
  record.bytes = bytes.size;
  record.spec = spec;
  std::vector<std::byte> encoded = record.encode();
  const bool in_place = registered(bytes);
  const bool small = !in_place && bytes.size <= kMaxEagerBytes &&
                     encoded.size() + bytes.size <= max_message_bytes_;
  const bool eager = bytes.size == 0 || (small && may_be_eager);
  Completion sent = eager ? send_eagerly(std::move(encoded), bytes)
                          : lend(encoded, bytes, in_place, attempt.staged);
  if (failed(sent)) {
    // What is over the quota alone is refused for ever. Else other leases fill the quota, or the
    // lane is full.
    const bool has_memory = in_place || attempt.staged != nullptr;
    attempt.hopeful = small || (has_memory && bytes.size <= most_lent_bytes_);
    return sent;
  }
  offered_.add();
  if (eager) eager_.add();
  if (edge_->record.kind != EdgeKind::kDynamic) offers_no_slot_.add();
  return sent;
}

Completion SenderState::send_eagerly(std::vector<std::byte> record, ByteView bytes) {
  const std::size_t head = record.size();
  record.resize(head + bytes.size);
  if (Status bad = copy_memory(record.data() + head, bytes.data, bytes.size); !bad.ok()) {
    return Completion(std::move(bad));
  }
  Completion sent = port_->engine().send({record.data(), record.size()}, tag_of(RecordType::kOffer),
                                         edge_->record.lane);
  return failed(sent) || bytes.size == 0 ? sent : Completion(Status());  // the source was copied
}

bool SenderState::registered(ByteView bytes) const {
  return bytes.size > 0 && device_.contains(bytes.data) &&
         device_.contains(bytes.data + bytes.size - 1);
}

Completion SenderState::lend(const std::vector<std::byte>& record, ByteView bytes, bool in_place,
                             std::shared_ptr<std::byte>& staged) {
  const ByteView message{record.data(), record.size()};
  const std::uint32_t tag = tag_of(RecordType::kOffer);
  const std::uint32_t lane = edge_->record.lane;
  Engine& engine = port_->engine();
  if (in_place) {
    const auto returned = std::make_shared<core::CompletionState>();
    returned->explain_long_waits(
        "send a tensor: a thread has waited for a second until the receiver of \"" + name_ +
        "\" drops a tensor of registered memory; let the receiver drop it before it waits for the "
        "next (in Python, del it at the end of the loop), or wait after the next send");
    Completion lent =
        engine.lend(message, bytes, [returned] { returned->finish(Status()); }, tag, lane);
    return failed(lent) ? lent : Completion(returned);
  }
  if (Status bad = stage(bytes, staged); !bad.ok()) return Completion(std::move(bad));
  Completion lent = engine.lend(
      message, {staged.get(), bytes.size}, [staged]() mutable { staged.reset(); }, tag, lane);
  if (failed(lent)) return lent;
  staged.reset();
  staged_.add();
  allocations_.add();
  return Completion(Status());  // the source was copied
}

// Once for all attempts to send it.
Status SenderState::stage(ByteView bytes, std::shared_ptr<std::byte>& staged) {
  if (staged != nullptr) return Status();
  Result<std::shared_ptr<std::byte>> memory = device_.allocate_owned(bytes.size);
  if (!memory.ok()) {
    return Status::error(memory.status().code(), {kSend},
                         "no slot is free, and there is no send memory for a copy of " +
                             std::to_string(bytes.size) + " bytes: " + memory.status().message(),
                         "or let the receiver drop tensors or have more slots");
  }
  staged = *std::move(memory);
  Status copied = copy_memory(staged.get(), bytes.data, bytes.size);
  if (!copied.ok()) staged.reset();
  return copied;
}

TensorStats SenderState::stats() {
  TensorStats stats;
  if (fork_guard_.in_forked_child()) return stats;
  port_->drain(channel_);  // credits that have come
  stats.registrations = Port::registrations_of(channel_) - registrations_before_;
  stats.pushed = pushed_.value();
  stats.offered = offered_.value();
  stats.offers_no_slot = offers_no_slot_.value();
  stats.staged = staged_.value();
  stats.eager = eager_.value();
  stats.allocations = allocations_.value();
  stats.requests = requests_.value();
  const core::Lock lock(port_->mutex());
  const CreditTable::Counts credits =
      edge_->closed ? edge_->last_credits : port_->engine().credits(key_);
  stats.grants = credits.grants;
  stats.slots_granted = credits.available;
  return stats;
}

std::uint64_t SenderState::end_stream(bool abandoned) {
  const core::Lock sending(sending_);
  if (std::exchange(closed_, true) || edge_ == nullptr) return last_sequence_;
  abandoned_ = abandoned;
  {
    const core::Lock lock(port_->mutex());
    if (edge_->closed) return last_sequence_;
  }
  port_->engine().send_record(
      RecordType::kClosed,
      ClosedRecord{edge_->record.edge, false, last_sequence_, abandoned}.encode(),
      edge_->record.lane);
  return last_sequence_;
}

Status SenderState::abandon() {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check("abandon a stream of tensors"));
  (void)end_stream(/*abandoned=*/true);
  return Status();
}

void SenderState::tell_of_long_close(const std::string& took) {
  {
    const core::Lock sending(sending_);
    if (close_is_long_->is_never()) return;
    close_is_long_ = core::Deadline::never();
  }
  core::log(core::LogLevel::kWarning, std::string(kClose) + ": " + took +
                                          " so far, and this thread waits; let it receive the "
                                          "others");
}

Status SenderState::close(std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(fork_guard_.check(kClose));
  const core::Deadline deadline = core::Deadline::after(timeout);
  const std::uint64_t last = end_stream(/*abandoned=*/false);
  core::Deadline quiet = deadline;
  {
    const core::Lock sending(sending_);
    if (edge_ == nullptr || abandoned_ || all_known_) return Status();
    if (!close_is_long_.has_value()) close_is_long_ = core::Deadline::after(core::kLongWait);
    quiet = *close_is_long_;
  }
  port_->drain(channel_);
  std::uint64_t taken = 0;
  bool closed = false;
  const auto known = [&] {
    port_->engine().flush();
    taken = std::min(edge_->taken, last);
    closed = edge_->closed;
    return taken == last || closed;
  };
  const auto took = [&] {
    return "the receiver of \"" + name_ + "\" took " + std::to_string(taken) + " of " +
           std::to_string(last) + " tensors";
  };
  // A caller may wait in several calls.
  Status waited = port_->wait(channel_, known, deadline.earlier(quiet));
  if (waited.code() == StatusCode::kDeadlineExceeded && quiet.expired()) {
    tell_of_long_close(took());
    waited = port_->wait(channel_, known, deadline);
  }
  if (taken == last) return Status();
  if (waited.code() == StatusCode::kDeadlineExceeded) {
    return late(kClose, took() + " in time",
                "let it receive the others, and call close() again or wait longer");
  }
  {
    const core::Lock sending(sending_);
    all_known_ = true;
  }
  if (closed) {
    return Status::error(StatusCode::kUnavailable, {kClose}, took() + " and closed",
                         "send the others again on another edge, if they are wanted");
  }
  return Status(waited.code(),
                std::string(kClose) + ": " + took() + ", as far as is known: " + waited.message());
}

}  // namespace farwrite::transfer
