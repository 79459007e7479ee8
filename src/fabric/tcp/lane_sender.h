// LaneSender: what one side has to say on one lane's connection, in order.
//
// The calling thread hands frames to the kernel itself; what the kernel does not take at once is
// queued, and the thread that polls the lane goes on with it.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/byte_stream.h"
#include "core/completion.h"
#include "core/completion_state.h"
#include "core/mutex.h"
#include "fabric/outbox.h"
#include "fabric/tcp/frame.h"
#include "farwrite/bytes.h"

namespace farwrite::fabric::tcp {

// What a frame consists of. The header and `head` are copied where they have to be kept.
struct OutgoingFrame {
  FrameHeader header;
  ByteView head;                           // first part of the payload, of the caller
  ByteView payload;                        // the rest: stays valid until the frame is out
  std::shared_ptr<const void> owner = {};  // keeps `payload` valid: of an answer to a read
};

// Thread-safe. Completions are finished without the lock.
class LaneSender {
 public:
  LaneSender(core::ByteStream& stream, std::string peer_name);

  // The completion is done when the kernel has every byte. `copy_payload`: keep a copy of what is
  // not sent at once, because the caller's bytes are only valid now.
  Completion send(const OutgoingFrame& frame, bool copy_payload = false);
  // What a receiver's user has to take out: held back when the peer's credit is used up. `payload`
  // is copied then, and `head` is empty. `accepted`: as in Weight. kResourceExhausted when too many
  // wait.
  Completion notify(const OutgoingFrame& frame, bool accepted);
  // A write, and a notification behind it. The frame's header says so.
  Completion write_and_notify(const OutgoingFrame& frame);
  // The peer has room for more. False if it says more than there ever was.
  bool add_credit(std::uint64_t bytes);

  // Sends from the queue what the kernel takes now.
  void flush();
  bool has_queue() const { return queued_.load() > 0; }
  // Of the queue, what the peer has asked for: its own requests grow it without our doing.
  std::size_t queued_answers() const { return queued_answers_.load(); }
  std::uint64_t backlogged() const FW_NO_THREAD_SAFETY_ANALYSIS { return outbox_.backlogged(); }

  // Takes nothing more: later frames, and those that wait for credit, end with `reason`. Ends the
  // stream's sending direction behind the queue, and returns whether it has.
  bool end_behind_queue(const Status& reason);

  // The connection is over: everything that waits ends with `reason`, now and later.
  void end(const Status& reason);

 private:
  struct QueuedFrame {
    std::vector<std::byte> own;  // header and whatever was copied
    ByteView payload;
    std::size_t sent = 0;  // of own and payload together
    std::shared_ptr<const void> owner;
    std::shared_ptr<core::CompletionState> completion;
    bool answers = false;
  };
  // A notification, message or record that waits for credit.
  struct CreditWaiter {
    std::vector<std::byte> bytes;  // header and payload
    std::shared_ptr<core::CompletionState> completion;
  };
  using Finished = std::vector<std::pair<std::shared_ptr<core::CompletionState>, Status>>;

  static std::uint64_t cost(const FrameHeader& header) {
    return kNotificationCost + (header.type == FrameType::kWrite ? 0 : header.length);
  }
  static Weight weight_of(const FrameHeader& header, ByteView payload);
  Completion send_locked(const OutgoingFrame& frame, bool copy_payload) FW_REQUIRES(mutex_);
  void release_locked() FW_REQUIRES(mutex_);
  void flush_locked(Finished& finished) FW_REQUIRES(mutex_);
  // Of the first frame of the queue, which ends with the status.
  void pop_locked(Finished& finished, const Status& status) FW_REQUIRES(mutex_);
  static void tell(Finished& finished);
  void end_locked(const Status& reason, Finished& finished) FW_REQUIRES(mutex_);
  void drop_held_back_locked(Finished& finished) FW_REQUIRES(mutex_);
  Status broken(int error) const;

  core::ByteStream& stream_;
  const std::string peer_name_;
  core::Mutex mutex_{core::LockRank::kTcp};
  std::deque<QueuedFrame> queue_ FW_GUARDED_BY(mutex_);
  std::atomic<std::size_t> queued_{0};
  std::atomic<std::size_t> queued_answers_{0};
  Outbox<CreditWaiter> outbox_ FW_GUARDED_BY(mutex_);
  Status ended_ FW_GUARDED_BY(mutex_);
  bool ending_ FW_GUARDED_BY(mutex_) = false;  // end_behind_queue() was called
  bool sending_ended_ FW_GUARDED_BY(mutex_) =
      false;  // and the queue is out, or the connection is over
};

}  // namespace farwrite::fabric::tcp
