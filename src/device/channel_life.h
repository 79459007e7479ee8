// ChannelLife: how far a channel has come from its start to its end, and what its peer has done.
//
// Life: open -> closing (close() has begun) -> closed (calls, callbacks and the peer's writes have
// ended, and BYE is sent) -> finished (link and connection are gone). It finishes when both sides
// have said FIN, or when the peer's end is proven. The peer is alive or silent, then closed or
// dead.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

#include "core/deadline.h"
#include "core/mutex.h"
#include "device/channel.h"
#include "farwrite/status.h"

namespace farwrite::device {

// Keeps the states and decides who may make a step; the steps are the channel's. Calls nothing, but
// for the end handler, and that without the mutex. Thread-safe.
class ChannelLife {
 public:
  using EndHandler = std::function<void(bool good_order, const Status& reason)>;

  // --- The peer. One that is over stays what it became first.

  PeerState peer_state() const { return peer_state_.load(); }
  bool peer_over() const { return peer_state_.load() >= PeerState::kClosed; }
  // What a call of peer_is() changed.
  struct PeerTransition {
    bool changed = false;
    bool ended_silence = false;  // of which the user was warned
  };
  // `good_order`: the peer itself has said that it closes.
  PeerTransition peer_is(PeerState state, const Status& reason, bool good_order);
  // Once for each silence that is not over: its reason.
  std::optional<Status> take_silence_to_warn_of();
  // Why nothing comes from the peer any more; ok while something may.
  Status peer_reason() const;
  bool left_in_good_order() const;
  // It has closed normally and lives: it keeps what we hold leases on.
  bool peer_lingers() const;
  // Its death is proven, however it left.
  void peer_is_gone() { peer_gone_.store(true); }
  bool peer_gone() const { return peer_gone_.load(); }
  // It is gone, and so are its forked children that could read what it held leases on.
  void readers_are_gone();
  bool readers_gone() const { return readers_gone_.load(); }

  // --- The lanes' end: the peer is over, and the users' lanes hold nothing more.

  void lanes_are_drained();
  bool drained() const { return drained_.load(); }
  // Replaces the one before.
  void set_end_handler(EndHandler handler);
  // Runs the handler, once, after the lanes' end, unless this side has begun to close.
  void call_end_handler_if_due();
  // True once it is not running, in this thread or another; false after the deadline.
  bool drop_end_handler(core::Deadline deadline);

  // --- Closing and finishing. One thread at a time takes either of the two steps.

  enum class Turn {
    kMine,  // the caller takes the step, and says so by the end_... call
    kOver,  // it has been taken already
    kBusy,  // another thread was at it until the deadline
  };
  void begin_closing() { closing_.store(true); }
  bool closing() const { return closing_.load(); }
  // Why an operation on the channel fails; ok while it need not.
  Status unusable(std::string_view operation, const std::string& peer_name) const;
  // kOver: the channel has closed, and nothing is left undone.
  Turn begin_settling(core::Deadline deadline);
  // For a close() that ended early: whether something is left for the caller to do now.
  bool resume_settling();
  // In the thread that settles: whether the channel has closed before.
  bool closed_before() const {
    const core::Lock lock(mutex_);
    return closed_;
  }
  // `closed`: the channel has closed, with `status`.
  void end_settling(bool closed, const Status& status);

  // Nothing comes any more that needs a lease of ours.
  bool fin_is_due() const;
  void fin_is_sent();
  void fin_is_received();
  // Closed, and nothing waits for the link: the peer and its readers are gone, or each side has
  // received the other's FIN.
  bool finish_is_due() const;
  Turn begin_finishing(core::Deadline deadline);
  void end_finishing(bool finished);

 private:
  // False after the deadline.
  template <typename Holds>
  bool wait(core::Deadline deadline, Holds holds) FW_REQUIRES(mutex_) FW_NO_THREAD_SAFETY_ANALYSIS;

  mutable core::Mutex mutex_{core::LockRank::kDeviceTables};
  core::CondVar changed_;
  // What is atomic changes under the mutex, and is read without it.
  std::atomic<PeerState> peer_state_{PeerState::kAlive};
  std::atomic<bool> peer_gone_{false};
  std::atomic<bool> readers_gone_{false};
  std::atomic<bool> closing_{false};
  std::atomic<bool> drained_{false};
  Status peer_reason_ FW_GUARDED_BY(mutex_);
  bool good_order_ FW_GUARDED_BY(mutex_) = false;
  Status silence_reason_ FW_GUARDED_BY(mutex_);        // while the peer is silent
  bool silence_warned_ FW_GUARDED_BY(mutex_) = false;  // and the user knows
  EndHandler end_handler_ FW_GUARDED_BY(mutex_);
  std::uint32_t end_handlers_running_ FW_GUARDED_BY(mutex_) = 0;
  bool settling_ FW_GUARDED_BY(mutex_) = false;
  bool closed_ FW_GUARDED_BY(mutex_) = false;
  Status close_status_ FW_GUARDED_BY(mutex_);
  bool fin_sent_ FW_GUARDED_BY(mutex_) = false;
  bool fin_received_ FW_GUARDED_BY(mutex_) = false;
  bool finishing_ FW_GUARDED_BY(mutex_) = false;
  bool finished_ FW_GUARDED_BY(mutex_) = false;
};

}  // namespace farwrite::device
