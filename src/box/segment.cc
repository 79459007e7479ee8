#include <string>
#include <utility>

#include "box/box.h"
#include "box/client_state.h"
#include "box/held_lease.h"
#include "box/segment_reader.h"
#include "box/segment_state.h"
#include "core/completion_state.h"
#include "core/deadline.h"
#include "core/interrupt.h"
#include "farwrite/internal/late.h"
#include "memory/copy.h"

namespace farwrite::box {
namespace {

// Of a change that was not posted.
Update not_posted(Status status) {
  return {.done = Completion(std::move(status)), .version = std::make_shared<std::uint64_t>(0)};
}

}  // namespace

const SegmentInfo& Segment::info() const { return state_->info(); }

Result<std::uint64_t> Segment::version() const { return state_->version(); }

Result<VersionId> Segment::version_id() const { return state_->id(); }

Result<std::vector<std::uint64_t>> Segment::chunk_versions() const {
  const Result<std::uint64_t> open = version();
  if (!open.ok()) return open.status();
  const Result<SegmentState::BufferRow> row = state_->current_row();
  if (!row.ok()) return row.status();
  const std::uint64_t bytes = state_->info().bytes;
  std::vector<std::uint64_t> stamps(SegmentLayout::chunks(bytes));
  if (stamps.empty()) return stamps;
  FARWRITE_RETURN_IF_ERROR(state_->load(SegmentLayout::chunk_at(bytes, row.value().index, 0),
                                        stamps.data(), stamps.size()));
  for (std::uint64_t& stamp : stamps) stamp = SegmentLayout::version(stamp);
  return stamps;
}

Result<ReadResult> Segment::read(MutableByteView out, std::uint64_t offset,
                                 const ReadOptions& options) const {
  FARWRITE_RETURN_IF_ERROR(state_->check_open());
  const std::uint64_t bytes = state_->info().bytes;
  if (offset > bytes || out.size > bytes - offset) {
    return Status::error(StatusCode::kOutOfRange, state_->context("read a segment"),
                         std::to_string(offset) + " + " + std::to_string(out.size) +
                             " bytes ends past the " + std::to_string(bytes) + " bytes of '" +
                             state_->info().spec.name + "'",
                         "read a range inside the segment");
  }
  const core::Deadline deadline = core::Deadline::after(options.timeout);
  if (options.min_version > 0) {
    const Result<VersionId> reached = wait(options.min_version, options.timeout, options.epoch);
    if (!reached.ok()) return reached.status();
  }
  return SegmentReader(*state_, deadline, options.owner).read(out, offset, options.consistency);
}

Update Segment::post(const Change& change, std::chrono::nanoseconds wait) const {
  if (wait <= std::chrono::nanoseconds(0)) return begin(change);
  const std::shared_ptr<ClientState>& client = state_->client();
  Update update = not_posted(client->check_wait());
  if (!update.done.wait().ok()) return update;
  const core::Deadline deadline = core::Deadline::after(wait);
  // Nothing of the program hangs on it as long as only this thread has it.
  client->drive([&] { update = begin(change); }, [&] { return update.done.done(); }, deadline);
  while (!update.done.done() && !deadline.expired() && !core::Interrupt::ends_wait()) {
    static_cast<void>(update.done.wait(deadline.earlier(core::Interrupt::turn()).remaining()));
  }
  return update;
}

Update Segment::begin(const Change& change) const {
  if (Status status = state_->check_open(); !status.ok()) return not_posted(std::move(status));
  Request request = {.verb = Verb::kChange,
                     .key = state_->info().key,
                     .change = {.operation = change.operation,
                                .offset = change.offset,
                                .length = change.length,
                                .factor = change.factor,
                                .x_key = change.x_key,
                                .x_offset = change.x_offset,
                                .y_key = change.y_key,
                                .y_offset = change.y_offset,
                                .new_epoch = change.new_epoch}};
  const std::shared_ptr<ClientState>& client = state_->client();
  const auto version = std::make_shared<std::uint64_t>(0);
  const auto state = std::make_shared<core::CompletionState>();
  state->belongs_to(client.get(), "change a segment", client->channel().peer_name());
  const auto answered = [state, version,
                         weak = std::weak_ptr(state_)](Result<ClientState::ReceivedReply> answer) {
    Status status = answer.ok() ? answer->reply.status : answer.status();
    if (status.ok()) {
      const Reply& reply = answer->reply;
      *version = reply.version.version;
      // A reader that begins there finds the change without another round trip.
      if (const auto segment = weak.lock()) {
        segment->set_last_row({.index = reply.row, .number = reply.buffer});
      }
    }
    state->finish(std::move(status));
  };
  client->counters().changes.fetch_add(1, std::memory_order_relaxed);
  Update update = {.done = Completion(state), .version = version};
  if (change.x_key != 0 || !takes_memory(change.operation)) {
    client->post(std::move(request), answered);
    return update;
  }
  if (change.length == Change::kWhole) {
    if (change.memory.size == 0 && change.offset < state_->info().bytes) {
      return not_posted(
          Status::error(StatusCode::kInvalidArgument, state_->context("change a segment"),
                        "the change has neither memory nor another segment to take from",
                        "give one of them, or a length of 0"));
    }
    request.change.length = change.memory.size;
  }
  if (request.change.length != change.memory.size) {
    return not_posted(Status::error(StatusCode::kInvalidArgument,
                                    state_->context("change a segment"),
                                    "the memory has " + std::to_string(change.memory.size) +
                                        " bytes for a range of " + std::to_string(change.length),
                                    "give as many bytes as the range has"));
  }
  if (change.memory.size <= inline_bytes(client->channel().max_message_bytes())) {
    request.bytes.assign(change.memory.data, change.memory.data + change.memory.size);
    client->post(std::move(request), answered);
    return update;
  }
  Result<ClientState::Lendable> lendable = client->lendable(change.memory);
  if (!lendable.ok()) return not_posted(lendable.status());
  // The caller's own memory may change again when the server has answered. If the connection ends
  // instead, the server may still read it: then the change is settled when the lease has ended. A
  // copy is freed when the server has let go of it.
  const std::shared_ptr<void> unsettled(nullptr, [state](void*) {
    state->finish(Status(StatusCode::kCancelled, "change a segment: the server did not answer"));
  });
  client->post(
      std::move(request), lendable->memory, [owner = lendable->owner, unsettled] {},
      [answered, state, unsettled](Result<ClientState::ReceivedReply> answer) {
        if (!answer.ok()) return state->abandon(answer.status());
        answered(std::move(answer));
      });
  return update;
}

Result<VersionId> Segment::wait(std::uint64_t version, std::chrono::nanoseconds timeout,
                                std::uint64_t epoch) const {
  const core::Deadline deadline = core::Deadline::after(timeout);
  Result<VersionId> now = VersionId();
  // Also with a timeout of 0, for which the server's answer would come too late. Without one the
  // answer alone may take for ever.
  if (state_->maps() || !deadline.is_never()) {
    now = state_->id(deadline);
    if (!now.ok() || now->version >= version || (epoch != 0 && now->epoch != epoch)) return now;
  }
  const Result<ClientState::ReceivedReply> answer = state_->client()->await(
      Verb::kWaitVersion, deadline.remaining(), [&](ClientState::OnAnswer on_answer) {
        return state_->post({.verb = Verb::kWaitVersion, .number = version, .epoch = epoch},
                            std::move(on_answer));
      });
  if (!answer.ok()) {
    if (answer.status().code() != StatusCode::kDeadlineExceeded) return answer.status();
    return internal::late(
        state_->context("wait for a version"), state_->client()->channel().peer_state(),
        "'" + state_->info().spec.name + "' has version " + std::to_string(now->version) +
            (now->version == 0 ? ", so nothing was written or published there," : "") +
            " and has not reached version " + std::to_string(version) + " in time",
        "check that the server and the process that changes or publishes it run, or allow more "
        "time");
  }
  return answer.value().reply.version;
}

std::uint64_t Segment::on_version(std::uint64_t version,
                                  std::function<void(const Result<VersionId>&)> callback,
                                  std::uint64_t epoch) const {
  if (Status status = state_->check_open(); !status.ok()) {
    callback(std::move(status));
    return 0;
  }
  return state_->post(
      {.verb = Verb::kWaitVersion, .number = version, .epoch = epoch},
      [callback = std::move(callback)](const Result<ClientState::ReceivedReply>& answer) {
        if (!answer.ok()) return callback(answer.status());
        const Reply& reply = answer.value().reply;
        if (!reply.status.ok()) return callback(reply.status);
        callback(reply.version);
      });
}

void Segment::cancel(std::uint64_t wait) const { state_->cancel(wait); }

Result<LeasedSegment> Segment::lease(std::chrono::nanoseconds timeout) const {
  FARWRITE_RETURN_IF_ERROR(state_->check_open());
  const std::shared_ptr<ClientState>& client = state_->client();
  const core::Deadline deadline = core::Deadline::after(timeout);
  const Result<std::shared_ptr<HeldLease>> lease =
      HeldLease::take(state_, client->others_by(deadline).remaining());
  if (!lease.ok()) return lease.status();
  const std::shared_ptr<HeldLease>& held = lease.value();
  const auto bytes = static_cast<std::size_t>(state_->info().bytes);
  client->counters().leases.fetch_add(1, std::memory_order_relaxed);
  if (held->mapped() != nullptr) {
    return LeasedSegment(held, {held->mapped(), bytes}, held->id());
  }
  // Between hosts the bytes are read once, and the server's are free again.
  Result<MemoryRegion> memory = client->device().allocate(bytes);
  if (!memory.ok()) return memory.status();
  const auto copy = std::make_shared<MemoryRegion>(*std::move(memory));
  const MutableByteView destination(copy->data(), bytes);
  if (bytes > 0) FARWRITE_RETURN_IF_ERROR(held->read(destination, 0, deadline, copy));
  return LeasedSegment(copy, destination, held->id());
}

Result<LeasedSegment> Segment::view() const {
  FARWRITE_RETURN_IF_ERROR(state_->check_open());
  if (!state_->maps()) {
    return Status::error(StatusCode::kUnsupported, state_->context("view a segment"),
                         "the fabric cannot map the server's memory", "read or lease it");
  }
  const Result<SegmentState::BufferRow> row = state_->current_row();
  if (!row.ok()) return row.status();
  const Result<SegmentState::MappedBuffer> current = state_->buffer(row.value().number);
  if (!current.ok()) return current.status();
  Result<std::shared_ptr<const void>> view = state_->client()->begin_view();
  if (!view.ok()) return view.status();
  const ByteView bytes(current.value().alias.data(),
                       static_cast<std::size_t>(state_->info().bytes));
  const auto held =
      std::make_shared<std::pair<std::shared_ptr<const void>, SegmentState::MappedBuffer>>(
          *std::move(view), current.value());
  return LeasedSegment(held, bytes, row.value().id());
}

Status Segment::check_wait() const { return state_->client()->check_wait(); }

Status Segment::detach() { return state_->detach(); }

Status Segment::free() {
  FARWRITE_RETURN_IF_ERROR(state_->check_open());
  return state_->client()->call({.verb = Verb::kFree, .key = state_->info().key}).status();
}

}  // namespace farwrite::box
