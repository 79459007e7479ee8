#include "box/segment_state.h"

#include <algorithm>
#include <future>
#include <utility>
#include <vector>

#include "box/ordered_reads.h"
#include "core/mutex.h"

namespace farwrite::box {
namespace {

// Waits until no more bytes move for the read, and returns its outcome. A completion that is
// only done may still have a transfer under way into its destination. Waits without a limit for a
// peer that was stopped, so it is for memory of the caller alone.
Status read_until_settled(ClientState& client, MutableByteView out, const RemoteRegion& region,
                          std::uint64_t offset) {
  Completion read{Status()};
  client.drive([&] { read = client.channel().read(out, region, offset); },
               [&] { return read.settled(); }, core::Deadline::never());
  const auto outcome = std::make_shared<std::promise<Status>>();
  read.on_settled([outcome](const Status& status) { outcome->set_value(status); });
  return outcome->get_future().get();
}

}  // namespace

Result<std::shared_ptr<SegmentState>> SegmentState::open(std::shared_ptr<ClientState> client,
                                                         SegmentInfo info,
                                                         const ClientState::ReceivedReply& answer) {
  const std::uint64_t size = SegmentLayout::size(info.bytes);
  // Not make_shared: the constructor is private.
  std::shared_ptr<SegmentState> segment(new SegmentState(std::move(client), std::move(info)));
  Result<MappedBuffer> opened = answer.reply.body.empty() ? segment->request_region(0, size)
                                                          : segment->open_region(answer.lent, size);
  if (!opened.ok()) return opened.status();
  segment->state_ = *std::move(opened);
  segment->maps_ = segment->state_.alias.data() != nullptr;
  segment->client_->add_segment(segment);
  return segment;
}

SegmentState::~SegmentState() {
  // Nothing is left to read why it failed; the connection's end detaches as well.
  static_cast<void>(detach());
}

Status SegmentState::detach() {
  FARWRITE_RETURN_IF_ERROR(client_->fork_guard().check("detach a segment"));
  std::set<std::uint64_t> waits;
  {
    const core::Lock lock(mutex_);
    if (std::exchange(detached_, true)) return Status();
    buffers_.clear();
    waits.swap(waits_);
  }
  for (const std::uint64_t wait : waits) client_->withdraw(wait, detached());
  client_->tell({.verb = Verb::kDetach, .key = info_.key});
  return Status();
}

// Lives as long as the request has its answer ahead.
struct SegmentState::PendingWait {
  ~PendingWait() {
    if (const std::shared_ptr<SegmentState> waiting = segment.lock()) {
      const core::Lock lock(waiting->mutex_);
      waiting->waits_.erase(number);
    }
  }
  std::weak_ptr<SegmentState> segment;
  std::uint64_t number = 0;
};

std::uint64_t SegmentState::post(Request request, ClientState::OnAnswer on_answer) {
  const auto wait = std::make_shared<PendingWait>();
  wait->segment = weak_from_this();
  request.key = info_.key;
  const std::uint64_t number = client_->post(
      std::move(request),
      [wait, on_answer = std::move(on_answer)](auto answer) { on_answer(std::move(answer)); });
  bool over = false;
  {
    const core::Lock lock(mutex_);
    wait->number = number;
    over = detached_;
    if (!over) waits_.insert(number);
  }
  if (over) client_->withdraw(number, detached());
  return number;
}

void SegmentState::cancel(std::uint64_t number) {
  if (client_->fork_guard().in_forked_child()) return;
  {
    const core::Lock lock(mutex_);
    if (!waits_.contains(number)) return;  // it has its answer
  }
  if (client_->forget(number)) client_->tell({.verb = Verb::kCancel, .number = number});
}

void SegmentState::forget_buffers() {
  std::map<std::uint64_t, MappedBuffer> dropped;
  const core::Lock lock(mutex_);
  freed_ = true;
  dropped.swap(buffers_);
}

void SegmentState::release() {
  MappedBuffer state;
  std::map<std::uint64_t, MappedBuffer> dropped;
  const core::Lock lock(mutex_);
  std::swap(state, state_);
  dropped.swap(buffers_);
}

Result<SegmentState::MappedBuffer> SegmentState::request_region(
    std::uint64_t number, std::uint64_t length, const core::Deadline& deadline) const {
  const Result<ClientState::ReceivedReply> answer =
      client_->call({.verb = Verb::kOpenBuffer, .key = info_.key, .number = number},
                    client_->answer_by(deadline).remaining());
  if (!answer.ok()) return answer.status();
  return open_region(answer.value().lent, length, deadline);
}

Result<SegmentState::MappedBuffer> SegmentState::open_region(const RemoteRegion& region,
                                                             std::uint64_t length,
                                                             const core::Deadline& deadline) const {
  const std::uint64_t lent = region.valid() ? region.size() : 0;
  if (!region.valid() || lent < length) {
    return Status::error(StatusCode::kProtocolError, context("open a segment"),
                         "the server gave " + std::to_string(lent) + " bytes for a segment of " +
                             std::to_string(length),
                         "run the same release on both sides");
  }
  MappedBuffer buffer;
  if (client_->channel().maps_peer_memory()) {
    Result<Alias> alias =
        client_->channel().alias(region, 0, lent, client_->answer_by(deadline).remaining());
    if (!alias.ok()) return alias.status();
    buffer.alias = *std::move(alias);
  }
  buffer.region = region;
  return buffer;
}

Result<SegmentState::MappedBuffer> SegmentState::buffer(std::uint64_t number,
                                                        const core::Deadline& deadline) {
  {
    const core::Lock lock(mutex_);
    if (const auto found = buffers_.find(number); found != buffers_.end()) return found->second;
  }
  Result<MappedBuffer> opened = request_region(number, info_.bytes, deadline);
  if (!opened.ok()) return opened.status();
  const core::Lock lock(mutex_);
  // Kept, it would keep the server from using the memory again.
  if (!freed_ && !detached_ && !client_->gate().closed()) buffers_[number] = opened.value();
  return opened;
}

Status SegmentState::fetch(MutableByteView out, const RemoteRegion& region, std::uint64_t offset,
                           const core::Deadline& deadline,
                           const std::shared_ptr<const void>& owner) const {
  if (owner == nullptr) return read_until_settled(*client_, out, region, offset);
  OrderedReads one(*client_);
  one.add(region, offset, out, owner);
  return one.wait(client_->answer_by(deadline, out.size));
}

Result<RemoteRegion> SegmentState::state_region() const {
  FARWRITE_RETURN_IF_ERROR(client_->check_wait());
  const core::Gate::Pass pass(client_->gate());
  if (!pass) FARWRITE_RETURN_IF_ERROR(client_->check("read"));
  return state_.region;
}

Status SegmentState::load(std::uint64_t at, std::uint64_t* words, std::size_t count,
                          const core::Deadline& deadline) const {
  if (maps_) {
    // Even here: what a callback may do is the same on every fabric.
    FARWRITE_RETURN_IF_ERROR(client_->check_wait());
    const core::Gate::Pass pass(client_->gate());
    FARWRITE_RETURN_IF_ERROR(client_->check("read"));
    const std::byte* const memory = state_.alias.data();
    for (std::size_t i = 0; i < count; ++i) words[i] = load_word(memory, at + i * 8);
    return Status();
  }
  const Result<RemoteRegion> region = state_region();
  if (!region.ok()) return region.status();
  const auto copy = std::make_shared<std::vector<std::uint64_t>>(count);
  FARWRITE_RETURN_IF_ERROR(
      fetch({copy->data(), count * 8}, region.value(), at, client_->answer_by(deadline), copy));
  std::copy(copy->begin(), copy->end(), words);
  return Status();
}

Result<SegmentState::BufferRow> SegmentState::current_row(const core::Deadline& deadline) const {
  std::uint64_t words[SegmentLayout::kHeadBytes / 8];
  if (maps_) {
    FARWRITE_RETURN_IF_ERROR(load(SegmentLayout::kCurrentAt, words, 1, deadline));
    const std::uint64_t index = words[0];
    if (index == SegmentLayout::kFreed) return gone();
    if (index >= kMaxBuffers) return malformed();
    return row_at(index, deadline);
  }
  FARWRITE_RETURN_IF_ERROR(load(0, words, SegmentLayout::kHeadBytes / 8, deadline));
  return current_row_in(words);
}

Result<SegmentState::BufferRow> SegmentState::current_row_in(const std::uint64_t* head) const {
  const std::uint64_t index = head[SegmentLayout::kCurrentAt / 8];
  if (index == SegmentLayout::kFreed) return gone();
  if (index >= kMaxBuffers) return malformed();
  return BufferRow::of(index, head + SegmentLayout::stamp_at(index) / 8);
}

SegmentState::BufferRow SegmentState::last_row() const {
  const core::Lock lock(mutex_);
  return last_row_;
}

void SegmentState::set_last_row(const BufferRow& row) {
  const core::Lock lock(mutex_);
  last_row_ = row;
}

Result<SegmentState::BufferRow> SegmentState::row_at(std::uint64_t index,
                                                     const core::Deadline& deadline) const {
  std::uint64_t words[3] = {};
  FARWRITE_RETURN_IF_ERROR(load(SegmentLayout::stamp_at(index), words, 3, deadline));
  return BufferRow::of(index, words);
}

Result<VersionId> SegmentState::id(const core::Deadline& deadline) const {
  FARWRITE_RETURN_IF_ERROR(check_open());
  // A change in place takes its time, and keeps its version until it ends. But a server that was
  // stopped in its last step must not hold this process up.
  constexpr int kTries = 100;
  for (int tries = 0; maps_ && tries < kTries; ++tries) {
    const Result<BufferRow> before = current_row(deadline);
    if (!before.ok()) return before.status();
    const Result<BufferRow> after = row_at(before.value().index, deadline);
    if (!after.ok()) return after.status();
    if (before.value().same_as(after.value())) return before.value().id();
  }
  std::uint64_t words[3] = {};
  FARWRITE_RETURN_IF_ERROR(load(SegmentLayout::kVersionAt, words, 3, deadline));
  if (words[1] == SegmentLayout::kFreed) return gone();
  return VersionId{.epoch = words[2], .version = words[0]};
}

Result<std::uint64_t> SegmentState::version() const {
  FARWRITE_RETURN_IF_ERROR(check_open());
  std::uint64_t words[2] = {};
  static_assert(SegmentLayout::kVersionAt == 0 && SegmentLayout::kCurrentAt == 8 &&
                SegmentLayout::kEpochAt == 16);
  FARWRITE_RETURN_IF_ERROR(load(SegmentLayout::kVersionAt, words, 2));
  if (words[1] == SegmentLayout::kFreed) return gone();
  return words[0];
}

ErrorContext SegmentState::context(std::string_view operation) const {
  return {.operation = operation, .peer = client_->channel().peer_name()};
}

Status SegmentState::gone() const {
  // A server that ends frees its segments.
  FARWRITE_RETURN_IF_ERROR(client_->check("use a segment"));
  return Status::error(StatusCode::kNotFound, context("use a segment"),
                       "a client freed the segment '" + info_.spec.name + "'",
                       "create or publish it anew, and then attach or subscribe again");
}

Status SegmentState::malformed() const {
  return Status::error(StatusCode::kProtocolError, context("use a segment"),
                       "the state of '" + info_.spec.name + "' names a buffer that cannot be",
                       "run the same release on both sides");
}

Status SegmentState::check_open() const {
  FARWRITE_RETURN_IF_ERROR(client_->fork_guard().check("use a segment"));
  const core::Lock lock(mutex_);
  if (detached_) return detached();
  if (freed_) return gone();
  return Status();
}

Status SegmentState::detached() const {
  return Status::error(StatusCode::kFailedPrecondition, context("use a segment"),
                       "this side has detached or closed '" + info_.spec.name + "'",
                       "attach, subscribe or open a publisher again");
}

}  // namespace farwrite::box
