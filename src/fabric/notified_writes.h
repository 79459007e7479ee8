// How the notification of a write is made of what a fabric has.
//
// Immediate: the fabric raises it with the write, and the channel posts such a write as it is.
// Flush and message (iWARP): the write, a flush, and when that is done a notification; what the
// lane has to tell later is held back meanwhile, so that its order stays.
// Tail flag (the paper's way, section 3.2): the write's last word, 8-byte aligned and never twice
// the same in one place, read by the receiver with acquire. Needs a fabric on which the end of a
// write is seen last, one write on one lane, and host memory, and wakes nothing. Slots use it when
// it is forced (transfer/tail_flag.h).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/completion_state.h"
#include "core/mutex.h"
#include "fabric/fabric.h"
#include "fabric/outbox.h"
#include "farwrite/channel_types.h"
#include "farwrite/status.h"

namespace farwrite::fabric {

struct LoweringChoice {
  NotificationLowering lowering = NotificationLowering::kImmediate;
  std::string reason;  // one sentence
};

// The best for a channel, or the `forced` one. kUnsupported, and why, if the fabric cannot do it.
Result<LoweringChoice> choose_lowering(const Capabilities& capabilities,
                                       std::optional<NotificationLowering> forced = std::nullopt);

// Flush and message, over a link's posts. Thread-safe. Goes after the link; `post` must fail once
// that has gone.
class NotifiedWrites : public std::enable_shared_from_this<NotifiedWrites> {
 public:
  using Post = std::function<Completion(std::uint32_t lane, const Operation&)>;

  // `fabric`, a name that lasts, and `peer` are for error sentences.
  NotifiedWrites(std::uint32_t lanes, std::string_view fabric, const std::string& peer, Post post);
  ~NotifiedWrites();
  NotifiedWrites(const NotifiedWrites&) = delete;
  NotifiedWrites& operator=(const NotifiedWrites&) = delete;

  // Any operation of the channel, in the order of its lane. Of a notified write the completion is
  // done when the flush is: the bytes are visible, and the notification is posted. An operation
  // that is held back has its message copied, and the link may not refuse it for want of room.
  // kResourceExhausted when too many are, or wait in the link for the same reason.
  Completion post(std::uint32_t lane, const Operation& operation);

 private:
  // Something a lane has to tell.
  struct DeferredNotification {
    Operation operation;
    std::vector<std::byte> message;  // what operation.source views
    std::shared_ptr<core::CompletionState> completion;
    bool ready = false;  // nothing is left to wait for but its turn
    bool lost = false;   // its write did not land: it must not be reported
  };
  struct LaneOutbox {
    LaneOutbox(std::string_view fabric, const std::string& peer) : outbox(fabric, peer) {}
    core::Mutex mutex{core::LockRank::kFabric};
    Outbox<std::shared_ptr<DeferredNotification>> outbox FW_GUARDED_BY(mutex);
    bool posting FW_GUARDED_BY(mutex) = false;  // a thread posts what is ready; nothing else may
    Handed handed FW_GUARDED_BY(mutex);         // to the link, which must keep it all
  };

  Completion post_notified_write(std::uint32_t lane_number, const Operation& notified);
  Completion post_in_turn(std::uint32_t lane_number, const Operation& operation);
  Completion post_flush(std::uint32_t lane_number, const Operation& operation);
  void flushed(std::uint32_t lane_number, const std::shared_ptr<DeferredNotification>& deferred,
               const Status& outcome);
  void post_ready(std::uint32_t lane_number);
  Status take_lost_write();
  // The waiting is over and bytes may still move: settles when the write does.
  void keep_unsettled(const Completion& written,
                      const std::shared_ptr<core::CompletionState>& completion,
                      const Status& reason);
  void settle(bool link_gone);

  const Post post_;
  std::vector<std::unique_ptr<LaneOutbox>> lanes_;
  core::Mutex lost_mutex_{core::LockRank::kFabric};
  Status lost_write_
      FW_GUARDED_BY(lost_mutex_);  // what a flush of ours was told, for the user's next flush
  std::vector<std::pair<Completion, std::shared_ptr<core::CompletionState>>> unsettled_
      FW_GUARDED_BY(lost_mutex_);
};

}  // namespace farwrite::fabric
