#include "device/channel_life.h"

#include <utility>

#include "core/channel_end.h"
#include "core/mutex.h"

namespace farwrite::device {

template <typename Holds>
bool ChannelLife::wait(core::Deadline deadline, Holds holds) {
  while (!holds()) {
    if (deadline.expired()) return false;
    changed_.wait_for(mutex_, deadline.turn());
  }
  return true;
}

ChannelLife::PeerTransition ChannelLife::peer_is(PeerState state, const Status& reason,
                                                 bool good_order) {
  const core::Lock lock(mutex_);
  const PeerState before = peer_state_.load();
  if (before == state || before >= PeerState::kClosed) return {};
  if (state >= PeerState::kClosed) {
    peer_reason_ = reason;
    good_order_ = good_order;
  }
  if (state == PeerState::kSilent) silence_reason_ = reason;
  peer_state_.store(state);
  return {.changed = true, .ended_silence = std::exchange(silence_warned_, false)};
}

std::optional<Status> ChannelLife::take_silence_to_warn_of() {
  const core::Lock lock(mutex_);
  if (peer_state_.load() != PeerState::kSilent) return std::nullopt;
  if (std::exchange(silence_warned_, true)) return std::nullopt;
  return silence_reason_;
}

Status ChannelLife::peer_reason() const {
  const core::Lock lock(mutex_);
  return peer_reason_;
}

Status ChannelLife::unusable(std::string_view operation, const std::string& peer_name) const {
  if (closing()) {
    return Status::error(StatusCode::kCancelled, {operation, peer_name},
                         "this side closed the channel", "open another one");
  }
  return core::end_of(operation, peer_reason());
}

bool ChannelLife::left_in_good_order() const {
  const core::Lock lock(mutex_);
  return good_order_;
}

bool ChannelLife::peer_lingers() const {
  const core::Lock lock(mutex_);
  return peer_state_.load() == PeerState::kClosed && good_order_ && !peer_gone_.load();
}

void ChannelLife::readers_are_gone() {
  const core::Lock lock(mutex_);
  readers_gone_.store(true);
}

void ChannelLife::lanes_are_drained() {
  const core::Lock lock(mutex_);
  drained_.store(true);
}

void ChannelLife::set_end_handler(EndHandler handler) {
  const core::Lock lock(mutex_);
  handler.swap(end_handler_);  // the one before may own anything: it goes after the lock
}

void ChannelLife::call_end_handler_if_due() {
  EndHandler handler;
  bool good_order = false;
  Status reason;
  {
    const core::Lock lock(mutex_);
    if (!drained_ || closing_ || !end_handler_) return;
    handler.swap(end_handler_);
    ++end_handlers_running_;
    good_order = good_order_;
    reason = peer_reason_;
  }
  handler(good_order, reason);
  handler = nullptr;  // what it owns goes before close() returns
  {
    const core::Lock lock(mutex_);
    --end_handlers_running_;
  }
  changed_.notify_all();
}

bool ChannelLife::drop_end_handler(core::Deadline deadline) {
  EndHandler handler;  // may own anything: goes after the lock
  core::Lock lock(mutex_);
  handler.swap(end_handler_);
  return wait(deadline, [this]() FW_REQUIRES(mutex_) { return end_handlers_running_ == 0; });
}

ChannelLife::Turn ChannelLife::begin_settling(core::Deadline deadline) {
  core::Lock lock(mutex_);
  if (!wait(deadline, [this]() FW_REQUIRES(mutex_) { return !settling_; })) return Turn::kBusy;
  if (closed_ && close_status_.ok()) return Turn::kOver;
  settling_ = true;
  return Turn::kMine;
}

bool ChannelLife::resume_settling() {
  const core::Lock lock(mutex_);
  if (!closing_ || closed_ || settling_) return false;
  settling_ = true;
  return true;
}

void ChannelLife::end_settling(bool closed, const Status& status) {
  {
    const core::Lock lock(mutex_);
    settling_ = false;
    if (closed) {
      closed_ = true;
      close_status_ = status;
    }
  }
  changed_.notify_all();
}

bool ChannelLife::fin_is_due() const {
  const core::Lock lock(mutex_);
  if (fin_sent_) return false;
  return closed_ || (drained_ && peer_state_.load() == PeerState::kClosed);
}

void ChannelLife::fin_is_sent() {
  const core::Lock lock(mutex_);
  fin_sent_ = true;
}

void ChannelLife::fin_is_received() {
  const core::Lock lock(mutex_);
  fin_received_ = true;
}

bool ChannelLife::finish_is_due() const {
  const core::Lock lock(mutex_);
  return closed_ && !finished_ && ((fin_sent_ && fin_received_) || readers_gone_);
}

ChannelLife::Turn ChannelLife::begin_finishing(core::Deadline deadline) {
  core::Lock lock(mutex_);
  if (!wait(deadline, [this]() FW_REQUIRES(mutex_) { return !finishing_; })) return Turn::kBusy;
  if (finished_) return Turn::kOver;
  finishing_ = true;
  return Turn::kMine;
}

void ChannelLife::end_finishing(bool finished) {
  {
    const core::Lock lock(mutex_);
    finishing_ = false;
    finished_ = finished;
  }
  changed_.notify_all();
}

}  // namespace farwrite::device
