// A channel's control plane: requests and their answers, and what the peer says of itself.
#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "core/channel_end.h"
#include "core/inside.h"
#include "core/status_wire.h"
#include "core/wire.h"
#include "device/channel_state.h"
#include "device/device_state.h"

namespace farwrite::device {
namespace {

// Decodes and hands on, or reports what is malformed.
template <typename Message, typename Serve>
Status serve(ByteView body, Serve serve_message) {
  auto message = Message::from_bytes(body);
  if (!message.ok()) return message.status();
  serve_message(*message);
  return Status();
}

}  // namespace

void ChannelState::send(ControlFrameType type, const std::vector<std::byte>& body) {
  control_->send(type, {body.data(), body.size()});
}

void ChannelState::on_frame(ControlFrameType type, ByteView body) {
  const std::shared_ptr<ChannelState> self = weak_from_this().lock();
  if (self == nullptr) return;
  heard();
  // Nothing is handed out any more, but leases still come back.
  const bool asks = type == ControlFrameType::kLookup || type == ControlFrameType::kOpen;
  if (asks && peer_over()) return;
  Status malformed;
  switch (type) {
    case ControlFrameType::kLookup:
      malformed =
          serve<LookupMessage>(body, [&](const auto& message) { peer_requests_.lookup(message); });
      expire_lookups_in_time();
      break;
    case ControlFrameType::kOpen:
      malformed =
          serve<OpenMessage>(body, [&](const auto& message) { peer_requests_.open(message); });
      break;
    case ControlFrameType::kReply:
      malformed = serve<ReplyMessage>(body, [&](auto& message) { requests_.take(message); });
      break;
    case ControlFrameType::kRelease:
      malformed =
          serve<ReleaseMessage>(body, [&](const auto& message) { take_return(message.lease); });
      break;
    case ControlFrameType::kPing:
      send(ControlFrameType::kPong);
      break;
    case ControlFrameType::kPong:
      break;
    case ControlFrameType::kBye:
      peer_is(PeerState::kClosed,
              Status::error(StatusCode::kUnavailable, {core::kUseTheChannel, peer_name_},
                            "the peer closed the channel", "connect again"),
              /*good_order=*/true);
      break;
    case ControlFrameType::kFin:
      leases_.close();
      life_.fin_is_received();
      break;
    case ControlFrameType::kRefuse:
      malformed = take_refusal(body);
      break;
    default:
      malformed =
          Status::error(StatusCode::kProtocolError, {"read a control message", peer_name_},
                        "unknown message type " + std::to_string(static_cast<std::uint16_t>(type)),
                        core::kBrokenRule);
  }
  if (!malformed.ok()) refuse(malformed);
  finish_if_due();
}

void ChannelState::refuse(const Status& reason) {
  // Each side at most once, so two of them do not refuse each other's refusals. From the loop: the
  // caller may hold locks of its own.
  if (const auto self = weak_from_this().lock(); self != nullptr && !peer_over()) {
    device_->post([self, reason] {
      if (self->lanes_.started())
        self->send(ControlFrameType::kRefuse, core::status_to_bytes(reason));
    });
  }
  // Lets the peer end the lanes, so that it learns the reason first; but not for long.
  times_.cut_after(device_->options().detection_time);
  peer_is(PeerState::kClosed, reason);
}

void ChannelState::refuse_message(const Status& reason) {
  const core::Gate::Pass pass(gate_);
  if (!pass) return;  // this side has closed it
  const core::Inside inside(this);
  refuse(reason);
}

Status ChannelState::take_refusal(ByteView body) {
  Status refusal;
  FARWRITE_RETURN_IF_ERROR(core::status_from_bytes(body, refusal));
  peer_is(PeerState::kClosed,
          Status::error(refusal.ok() ? StatusCode::kProtocolError : refusal.code(),
                        {core::kUseTheChannel, peer_name_},
                        "the peer ended it: " + refusal.message(), /*remedy=*/{}));
  cut_link(/*in_good_order=*/false);
  return Status();
}

void ChannelState::on_connection_end(const Status& reason) {
  heard_all_.store(true);
  if (parting_.load()) return;                        // part() asks for it
  if (reason.code() == StatusCode::kProtocolError) {  // it was sent a REFUSE
    times_.cut_after(device_->options().detection_time);
    peer_is(PeerState::kClosed, reason);
    requests_.look_again();
    return;
  }
  if (!capabilities_.maps_peer_memory) {
    const std::string named = std::string(core::kUseTheChannel) + " to " + peer_name_;
    on_peer_dead(Status(StatusCode::kPeerDead, core::end_of(named, reason).message()));
    return;
  }
  // A peer that maps our memory is dead only when its process is: the link will tell. If it has
  // not said BYE, it is at least out of reach from now on.
  peer_is(
      PeerState::kSilent,
      Status::error(StatusCode::kPeerSilent, {"receive", peer_name_},
                    "the peer's connection ended, but its process still runs: " + reason.message(),
                    "restart the peer"));
  requests_.look_again();
}

void ChannelState::expire_lookups_in_time() {
  for (const std::chrono::nanoseconds left : peer_requests_.take_last_stretches()) {
    device_->run_later(left, [weak = weak_from_this()] {
      if (const auto self = weak.lock()) self->peer_requests_.expire_parked();
    });
  }
}

}  // namespace farwrite::device
