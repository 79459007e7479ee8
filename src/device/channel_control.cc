// A channel's control plane: requests and their answers, and what the peer says of itself.
#include <algorithm>
#include <string>
#include <utility>

#include "core/inside.h"
#include "core/status_wire.h"
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

void ChannelState::send(FrameType type, const std::vector<std::byte>& body) {
  control_->send(type, {body.data(), body.size()});
}

void ChannelState::on_frame(FrameType type, ByteView body) {
  const std::shared_ptr<ChannelState> self = weak_from_this().lock();
  if (self == nullptr) return;
  heard();
  // Nothing is handed out any more, but leases still come back.
  const bool asks = type == FrameType::kLookup || type == FrameType::kOpen;
  if (asks && peer_over()) return;
  Status malformed;
  switch (type) {
    case FrameType::kLookup:
      malformed = serve<LookupMessage>(body, [&](const auto& message) { serve_lookup(message); });
      break;
    case FrameType::kOpen:
      malformed = serve<OpenMessage>(body, [&](const auto& message) { serve_open(message); });
      break;
    case FrameType::kReply:
      malformed = serve<ReplyMessage>(body, [&](auto& message) { take_reply(message); });
      break;
    case FrameType::kRelease:
      malformed =
          serve<ReleaseMessage>(body, [&](const auto& message) { take_return(message.lease); });
      break;
    case FrameType::kPing:
      send(FrameType::kPong);
      break;
    case FrameType::kPong:
      break;
    case FrameType::kBye:
      peer_is(PeerState::kClosed,
              Status::error(StatusCode::kUnavailable, {"use the channel", peer_name_},
                            "the peer closed it", "connect again"),
              /*good_order=*/true);
      break;
    case FrameType::kFin:
      leases_.close();
      life_.fin_is_received();
      break;
    case FrameType::kRefuse:
      malformed = take_refusal(body);
      break;
    default:
      malformed =
          Status::error(StatusCode::kProtocolError, {"read a control message", peer_name_},
                        "unknown message type " + std::to_string(static_cast<std::uint16_t>(type)),
                        "run Farwrite releases at most one wire version apart");
  }
  if (!malformed.ok()) refuse(malformed);
  finish_if_due();
}

void ChannelState::refuse(const Status& reason) {
  // Each side at most once, so two of them do not refuse each other's refusals. From the loop: the
  // caller may hold locks of its own.
  if (const auto self = weak_from_this().lock(); self != nullptr && !peer_over()) {
    device_->post([self, reason] {
      if (self->live_.load()) self->send(FrameType::kRefuse, core::status_to_bytes(reason));
    });
  }
  expect_cut();
  peer_is(PeerState::kClosed, reason);
}

void ChannelState::expect_cut() {
  cut_due_ns_.store(core::now_ns() + device_->options().detection_time.count());
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
  peer_is(PeerState::kClosed, Status(refusal.ok() ? StatusCode::kProtocolError : refusal.code(),
                                     "use the channel with " + peer_name_ +
                                         ": the peer ended it: " + refusal.message()));
  cut_link(/*in_good_order=*/false);
  return Status();
}

void ChannelState::on_connection_end(const Status& reason) {
  if (parting_.load()) return;                        // part() asks for it
  if (reason.code() == StatusCode::kProtocolError) {  // it was sent a REFUSE
    expect_cut();
    peer_is(PeerState::kClosed, reason);
    requests_.look_again();
    return;
  }
  if (!capabilities_.maps_peer_memory) {
    on_peer_dead(Status::error(StatusCode::kPeerDead, {"use the channel", peer_name_},
                               reason.message(), "restart the peer and connect again"));
    return;
  }
  // A peer that maps our memory is dead only when its process is: the link will tell. If it has
  // not said BYE, it is at least out of reach from now on.
  peer_is(
      PeerState::kSilent,
      Status::error(StatusCode::kPeerSilent, {"receive from the peer", peer_name_},
                    "the peer's connection ended, but its process still runs: " + reason.message(),
                    "restart the peer"));
  requests_.look_again();
}

void ChannelState::serve_lookup(const LookupMessage& message) {
  if (try_answer(message) || parked_.park(message)) return;
  reply_error(message.request,
              Status::error(StatusCode::kNotFound, {"look \"" + message.name + "\" up"},
                            "the peer has published " + names_.names() + " to this channel and " +
                                device_->names().names() + " to every channel",
                            "check the name, or wait until it is published"));
}

bool ChannelState::try_answer(const LookupMessage& message) {
  std::optional<PublishedRegion> published = names_.find(message.name);
  if (!published.has_value()) published = device_->names().find(message.name);
  if (!published.has_value()) return false;
  reply_with(message.request, *published);
  return true;
}

void ChannelState::answer_parked_lookups() {
  parked_.answer([this](const LookupMessage& message) { return try_answer(message); });
}

void ChannelState::expire_parked_lookups() {
  for (LookupMessage& message : parked_.take_expired()) {
    message.wait_ms = 0;
    serve_lookup(message);
  }
}

void ChannelState::serve_open(const OpenMessage& message) {
  constexpr std::string_view kOperation = "open a region";
  const RegionDescriptor& asked = message.descriptor;
  if (asked.device_uuid != device_->uuid() || asked.epoch != device_->epoch()) {
    reply_error(message.request,
                Status::error(StatusCode::kPeerRestarted, {kOperation},
                              "peer restarted: the descriptor is from another start of the device",
                              "ask the peer for a fresh descriptor"));
    return;
  }
  std::shared_ptr<RegionState> region = device_->regions()->find(asked.region_id);
  if (region == nullptr || region->closed()) {
    reply_error(message.request, Status::error(StatusCode::kNotFound, {kOperation},
                                               "the region was closed by its owner",
                                               "ask the peer for another one"));
    return;
  }
  if (region->landing() != nullptr && region->landing() != &landing_) {
    reply_error(message.request,
                Status::error(StatusCode::kPermissionDenied, {kOperation},
                              "only another peer may write the region",
                              "ask the peer for memory that it allocated for this channel"));
    return;
  }
  reply_with(message.request, {std::move(region), {}});
}

void ChannelState::reply_with(std::uint64_t request, const PublishedRegion& published) {
  ReplyMessage reply;
  reply.request = request;
  reply.descriptor = published.region->descriptor();
  reply.description = published.description;
  if (published.region->closed()) {
    reply.status =
        Status::error(StatusCode::kNotFound, {"open a region"},
                      "the region was closed by its owner", "ask the peer for another one");
  } else if (published.region->landing() == nullptr) {
    // Landing memory needs no lease: its owner revokes the access before it reuses the memory.
    const RegionDescriptor& descriptor = reply.descriptor;
    const LeasedRange range = {find_key(descriptor, peer_.fabric), descriptor.offset,
                               descriptor.length};
    auto lease = leases_.grant(published.region, range, peer_name_);
    if (lease.ok()) {
      reply.lease = *lease;
    } else {
      reply.status = lease.status();
    }
  }
  send(FrameType::kReply, reply.to_bytes());
}

void ChannelState::reply_error(std::uint64_t request, const Status& status) {
  ReplyMessage reply;
  reply.request = request;
  reply.status = status;
  send(FrameType::kReply, reply.to_bytes());
}

void ChannelState::take_reply(ReplyMessage& reply) {
  const bool leases = reply.status.ok() && reply.lease != 0;
  if (requests_.answer(reply, [&] { return !leases || remote_leases_.hold(); })) return;
  // Nobody waits any more; the lease must not stay out.
  if (reply.lease != 0) send(FrameType::kRelease, ReleaseMessage{reply.lease}.to_bytes());
}

Result<ReplyMessage> ChannelState::request(FrameType type, std::uint64_t request_id,
                                           const std::vector<std::byte>& body,
                                           core::Deadline deadline, std::string_view operation) {
  auto reply = requests_.ask(
      request_id, deadline, [&] { send(type, body); }, [&] { return unusable(operation); });
  if (!reply.ok()) return reply.status();
  if (reply->has_value()) return **std::move(reply);
  const bool silent = life_.peer_state() == PeerState::kSilent;
  return Status::error(silent ? StatusCode::kPeerSilent : StatusCode::kDeadlineExceeded,
                       {operation, peer_name_},
                       silent ? "the peer is silent" : "the peer did not answer in time",
                       "check that the peer is running and not stopped, or allow more time");
}

}  // namespace farwrite::device
