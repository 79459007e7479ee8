// The end of a channel's notifications: its lanes are emptied, then the user is told.
//
// After the peer has gone, pollers serve every lane until it holds nothing more, whichever thread
// took the notifications before; a waiting thread helps. Only then do we say FIN: memory that the
// peer lent just before it closed is still looked at. Only then do waiters get the end, and the
// handler.
#include "core/channel_end.h"

#include <utility>

#include "device/channel_state.h"
#include "device/device_state.h"

namespace farwrite::device {

void ChannelState::on_lanes_drained() {
  life_.lanes_are_drained();
  // Our own polling has come round since the peer went, and no answer of the peer is awaited.
  if (capabilities_.maps_peer_memory) {
    operations_.abandon(unusable(core::kUseTheChannel), /*reads_too=*/true);
  }
  inbox_.wake_all();
  say_fin_if_due();
  tell_end_if_due();
}

Status ChannelState::on_end(std::function<void(bool good_order, const Status& reason)> handler) {
  constexpr std::string_view kOperation = "set an end handler";
  FARWRITE_RETURN_IF_ERROR(device_->fork_guard().check(kOperation));
  const core::Gate::Pass pass(gate_);
  if (!pass) return unusable(kOperation);
  life_.set_end_handler(std::move(handler));
  tell_end_if_due();
  return Status();
}

void ChannelState::tell_end_if_due() {
  const core::Inside inside(this);
  life_.call_end_handler_if_due();
}

}  // namespace farwrite::device
