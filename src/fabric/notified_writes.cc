#include "fabric/notified_writes.h"

#include <utility>

#include "core/mutex.h"
#include "core/with_memory.h"

namespace farwrite::fabric {
namespace {

// Calls `next` with the outcome of `completion`, now or later.
void after(const Completion& completion, std::function<void(const Status&)> next) {
  if (completion.state() == nullptr) return next(completion.wait());
  completion.on_done(std::move(next));
}

}  // namespace

Result<LoweringChoice> choose_lowering(const Capabilities& capabilities,
                                       std::optional<NotificationLowering> forced) {
  constexpr ErrorContext kWhere{"choose how writes notify"};
  const NotificationLowering lowering =
      forced.value_or(capabilities.has_immediate ? NotificationLowering::kImmediate
                                                 : NotificationLowering::kFlushAndMessage);
  switch (lowering) {
    case NotificationLowering::kImmediate:
      if (!capabilities.has_immediate) {
        return Status::error(StatusCode::kUnsupported, kWhere,
                             "this fabric's writes carry no notification",
                             "leave the choice to the channel");
      }
      return LoweringChoice{lowering, "the write itself carries the notification"};
    case NotificationLowering::kFlushAndMessage:
      return LoweringChoice{lowering, forced.has_value()
                                          ? "forced: a flush, then a separate notification"
                                          : "this fabric's writes carry no notification, so a "
                                            "flush and a notification follow"};
    case NotificationLowering::kTailFlag:
      if (!capabilities.whole_message_order) {
        return Status::error(
            StatusCode::kUnsupported, kWhere,
            "this fabric does not guarantee that the end of a write becomes visible last",
            "leave the choice to the channel");
      }
      return LoweringChoice{lowering, "forced: the fabric makes the end of a write visible last"};
  }
  return Status::error(StatusCode::kInvalidArgument, kWhere, "the lowering is unknown",
                       "use one of NotificationLowering");
}

NotifiedWrites::NotifiedWrites(std::uint32_t lanes, std::string_view fabric,
                               const std::string& peer, Post post)
    : post_(std::move(post)) {
  for (std::uint32_t i = 0; i < lanes; ++i) {
    lanes_.push_back(std::make_unique<LaneOutbox>(fabric, peer));
  }
}

NotifiedWrites::~NotifiedWrites() { settle(/*link_gone=*/true); }

Completion NotifiedWrites::post(std::uint32_t lane, const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kWrite:
      return operation.notify ? post_notified_write(lane, operation) : post_(lane, operation);
    case OperationKind::kRead:
      return post_(lane, operation);
    case OperationKind::kFlush:
      return post_flush(lane, operation);
    default:
      return post_in_turn(lane, operation);
  }
}

Completion NotifiedWrites::post_notified_write(std::uint32_t lane_number,
                                               const Operation& notified) {
  LaneOutbox& lane = *lanes_[lane_number];
  const auto deferred = std::make_shared<DeferredNotification>();
  deferred->operation.kind = OperationKind::kNotify;
  deferred->operation.tag = notified.tag;
  deferred->completion = std::make_shared<core::CompletionState>();
  {
    const core::Lock lock(lane.mutex);
    Status queued =
        lane.outbox.queue(deferred, {0, 0, notified.tag}, lane.handed);  // its place in the order
    if (!queued.ok()) return Completion(std::move(queued));
  }
  Operation write = notified;
  write.notify = false;
  const Completion written = post_(lane_number, write);
  if (written.done() && !written.wait().ok()) {
    flushed(lane_number, deferred, written.wait());
    return Completion(deferred->completion);
  }
  Operation flush;
  flush.kind = OperationKind::kFlush;
  after(post_(lane_number, flush),
        [self = shared_from_this(), lane_number, deferred, written](const Status& outcome) {
          // A flush that is over has seen the write to its end.
          Status status = outcome;
          if (status.ok() && written.done()) status = written.wait();
          if (!outcome.ok()) {
            const core::Lock lock(self->lost_mutex_);
            if (self->lost_write_.ok()) self->lost_write_ = outcome;
          }
          if (!status.ok() && !written.settled())
            self->keep_unsettled(written, deferred->completion, status);
          self->flushed(lane_number, deferred, status);
        });
  return Completion(deferred->completion);
}

void NotifiedWrites::keep_unsettled(const Completion& written,
                                    const std::shared_ptr<core::CompletionState>& completion,
                                    const Status& reason) {
  completion->abandon(reason);
  const core::Lock lock(lost_mutex_);
  unsettled_.emplace_back(written, completion);
}

void NotifiedWrites::settle(bool link_gone) {
  std::vector<std::shared_ptr<core::CompletionState>> settled;
  {
    const core::Lock lock(lost_mutex_);
    std::erase_if(unsettled_, [&](const auto& entry) {
      if (!link_gone && !entry.first.settled()) return false;
      settled.push_back(entry.second);
      return true;
    });
  }
  for (const auto& completion : settled) completion->finish(Status());  // the outcome is there
}

void NotifiedWrites::flushed(std::uint32_t lane_number,
                             const std::shared_ptr<DeferredNotification>& deferred,
                             const Status& outcome) {
  LaneOutbox& lane = *lanes_[lane_number];
  {
    const core::Lock lock(lane.mutex);
    deferred->ready = true;
    deferred->lost = !outcome.ok();
  }
  if (!outcome.ok() && !deferred->completion->done()) deferred->completion->finish(outcome);
  settle(/*link_gone=*/false);
  post_ready(lane_number);
}

Completion NotifiedWrites::post_in_turn(std::uint32_t lane_number, const Operation& operation) {
  LaneOutbox& lane = *lanes_[lane_number];
  {
    const core::Lock lock(lane.mutex);
    if (!lane.outbox.empty() || lane.posting) {
      const auto deferred = std::make_shared<DeferredNotification>();
      deferred->operation = operation;
      const ByteView source = operation.source;
      const Status copied = core::with_memory({"send"}, "a message that waits", [&] {
        if (source.size > 0) deferred->message.assign(source.data, source.data + source.size);
      });
      if (!copied.ok()) return Completion(copied);
      deferred->operation.source = {deferred->message.data(), deferred->message.size()};
      deferred->completion = std::make_shared<core::CompletionState>();
      deferred->ready = true;
      Status queued = lane.outbox.queue(
          deferred, {source.size, 0, operation.tag, operation.accepted}, lane.handed);
      return queued.ok() ? Completion(deferred->completion) : Completion(std::move(queued));
    }
  }
  return post_(lane_number, operation);
}

void NotifiedWrites::post_ready(std::uint32_t lane_number) {
  LaneOutbox& lane = *lanes_[lane_number];
  core::Lock lock(lane.mutex);
  if (lane.posting) return;  // it looks again when it is done with the present one
  lane.posting = true;
  const auto is_ready = [](const std::shared_ptr<DeferredNotification>& deferred) {
    return deferred->ready;
  };
  while (const auto next = lane.outbox.next(is_ready)) {
    if ((*next)->lost) continue;
    (*next)->operation.accepted = true;
    ++lane.handed.records;
    lane.handed.bytes += (*next)->message.size();
    lock.unlock();
    after(post_(lane_number, (*next)->operation),
          [self = shared_from_this(), lane_number, deferred = *next](const Status& outcome) {
            LaneOutbox& sent = *self->lanes_[lane_number];
            {
              const core::Lock counting(sent.mutex);
              --sent.handed.records;
              sent.handed.bytes -= deferred->message.size();
            }
            deferred->completion->finish(outcome);
          });
    lock.lock();
  }
  lane.posting = false;
}

Completion NotifiedWrites::post_flush(std::uint32_t lane_number, const Operation& operation) {
  const Completion flush = post_(lane_number, operation);
  const auto completion = std::make_shared<core::CompletionState>();
  after(flush, [self = shared_from_this(), completion](const Status& outcome) {
    const Status lost = self->take_lost_write();
    completion->finish(outcome.ok() ? lost : outcome);
  });
  return Completion(completion);
}

Status NotifiedWrites::take_lost_write() {
  const core::Lock lock(lost_mutex_);
  return std::exchange(lost_write_, Status());
}

}  // namespace farwrite::fabric
