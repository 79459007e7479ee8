// How a channel closes, and how it ends for good.
//
// close() goes in steps, each bounded by the caller's deadline: calls of other threads and
// callbacks end, then the peer's access to memory. When callbacks do not return in time, the
// channel stays closing: no call begins any more, and its memory stays granted and is not reused.
// The device's timer goes on from there, and so does the next close().
#include <algorithm>
#include <utility>

#include "core/inside.h"
#include "core/status_wire.h"
#include "device/channel_state.h"
#include "device/device_state.h"

namespace farwrite::device {
namespace {

// What the control loop waits for a poller to be done with a lane; tick() asks again.
constexpr std::chrono::nanoseconds kBrief = std::chrono::milliseconds(2);

}  // namespace

Status ChannelState::close(std::chrono::nanoseconds timeout) {
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check("close a channel"));
  if (entered_by_this_thread()) {
    return Status::error(StatusCode::kFailedPrecondition, {"close the channel", peer_name_},
                         "called inside one of the channel's callbacks",
                         "close it from another thread, or after the callback returns");
  }
  const core::Inside inside(this);  // callbacks that run here would wait for this call
  const core::Deadline deadline = core::Deadline::after(timeout);
  begin_closing();
  const ChannelLife::Turn turn = life_.begin_settling(deadline);
  if (turn == ChannelLife::Turn::kOver) return Status();
  if (turn == ChannelLife::Turn::kBusy) {
    return Status::error(StatusCode::kDeadlineExceeded, {"close the channel", peer_name_},
                         "another thread is still closing it", "allow more time");
  }
  return settle(core::Deadline::after(std::max(timeout, kCallbackGrace)), deadline);
}

void ChannelState::begin_closing() {
  if (extended_.load()) extension_->channel_closes();
  life_.begin_closing();
  gate_.close();
  inbox_.wake_all();
  requests_.look_again();
}

void ChannelState::go_on_closing() {
  if (!life_.resume_settling()) return;
  // The next close() reports it.
  (void)settle(core::Deadline::after(kBrief), core::Deadline::after({}));
}

Status ChannelState::settle(core::Deadline callbacks, core::Deadline peer) {
  const bool again = life_.closed_before();
  Status status = again ? Status() : stop_callbacks(callbacks);
  const bool stopped = status.ok();
  if (stopped) status = landing_.revoke_all(peer);
  if (stopped) {
    // A handle may outlive the channel. The peer keeps the link as long as this side holds leases.
    for (const std::uint64_t lease : opened_.take_unused_leases()) release_remote(lease);
  }
  if (stopped && !again) {
    peer_requests_.names().clear();
    send(ControlFrameType::kBye);
  }
  life_.end_settling(stopped, status);
  say_fin_if_due();
  finish_if_due();
  return status;
}

Status ChannelState::stop_callbacks(core::Deadline deadline) {
  const auto busy = [this](std::string_view what) {
    return Status::error(StatusCode::kDeadlineExceeded, {"close the channel", peer_name_},
                         std::string(what) + " has not returned in time",
                         "let it return and call close() again; the channel refuses every other "
                         "call, and closes by itself after that");
  };
  if (!gate_.wait_until_empty(deadline) || !inbox_.no_longer_bare(deadline)) {
    return busy("another thread's call on this channel");
  }
  if (!std::exchange(lanes_ended_, true)) lanes_.end();
  // Leases still come back, and where our CPU makes the progress, what was posted still goes out.
  if (capabilities_.cpu_free_target && !lanes_.leave_pollers(/*return_lane_too=*/false, deadline)) {
    return busy("a callback of this channel");
  }
  const Status closed = unusable("close the channel");
  operations_.abandon(closed, /*reads_too=*/true);
  if (const ChannelLink::LinkUse link(link_); link) link->end_reads(closed);
  if (!inbox_.set_handler(nullptr, deadline).ok()) return busy("the notification handler");
  inbox_.drop_queued();
  if (!life_.drop_end_handler(deadline)) return busy("the end handler");
  return Status();
}

void ChannelState::say_fin_if_due() {
  if (!life_.fin_is_due() || operations_.any_pending() || !remote_leases_.end()) return;
  send(ControlFrameType::kFin);
  // Not before: a thread that sees it may end the channel and its connection.
  life_.fin_is_sent();
}

bool ChannelState::finish_is_due() {
  // A peer that maps our memory and never receives FIN would wait for it until we end. A FIN that
  // the socket has not taken yet goes first; tick() asks again.
  return life_.finish_is_due() && (life_.peer_gone() || control_->all_sent());
}

void ChannelState::finish_if_due() {
  if (!finish_is_due()) return;
  // On the loop, and not in a thread that may be in a callback. A closing device finishes it by
  // itself.
  device_->post([self = shared_from_this()] {
    if (self->finish_is_due()) (void)self->finish(core::Deadline::after(kBrief));
  });
}

bool ChannelState::part() {
  using Parting = fabric::Link::Parting;
  const ChannelLink::LinkUse link(link_);
  if (!link || life_.peer_gone() || cut_off_.load()) return true;
  // A peer that has closed as well awaits no answer, but this side's ends, as this side does.
  const Parting parting = link->part(/*last=*/peer_over());
  if (parting == Parting::kNotNeeded) return true;
  // The peer answers the end of the connection with the ends of its lanes, so the queues go first.
  if (parting == Parting::kSending) return false;
  parting_.store(true);
  return control_->end_sending() && control_->over() && parting == Parting::kOver;
}

bool ChannelState::finish(core::Deadline deadline) {
  const ChannelLife::Turn turn = life_.begin_finishing(deadline);
  if (turn != ChannelLife::Turn::kMine) return turn == ChannelLife::Turn::kOver;
  remote_leases_.end_all();
  const bool left =
      lanes_.leave_pollers(/*return_lane_too=*/true, deadline) && inbox_.no_longer_bare(deadline);
  if (left) drop_link();
  life_.end_finishing(left);
  return left;
}

void ChannelState::give_up(const Status& reason) {
  begin_closing();
  if (control_ == nullptr) return;
  send(ControlFrameType::kRefuse, core::status_to_bytes(reason));
  send(ControlFrameType::kFin);  // nothing of the peer was ever looked at
}

void ChannelState::drop_link() {
  if (control_ != nullptr) control_->close();
  leases_.close();
  inbox_.drop_queued();
  link_.drop();
  landing_.release();
  device_->forget(*this);
}

}  // namespace farwrite::device
