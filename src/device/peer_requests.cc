#include "device/peer_requests.h"

#include <optional>
#include <string_view>

#include "device/device_state.h"

namespace farwrite::device {

void PeerRequests::lookup(const LookupMessage& message) {
  if (try_answer(message)) return;
  const std::string& service = device_.service();
  if (!service.empty()) {
    refuse(message.request,
           Status::error(StatusCode::kNotFound, {"look \"" + message.name + "\" up"},
                         "the peer is a " + service + " server, which publishes no names",
                         "connect to it as a client of a " + service));
    return;
  }
  if (parked_.park(message)) return;
  if (message.wait_ms > 0) {
    refuse(message.request,
           Status::error(
               StatusCode::kResourceExhausted, {"look \"" + message.name + "\" up"},
               std::to_string(ParkedLookups::kMostParked) + " lookups of this channel wait already",
               "wait for fewer names at once"));
    return;
  }
  refuse(message.request, Status::error(StatusCode::kNotFound, {"look \"" + message.name + "\" up"},
                                        "the peer has published to this channel: " +
                                            names_.names() + "; to all: " + device_.names().names(),
                                        "check the name, or wait until it is published"));
}

bool PeerRequests::try_answer(const LookupMessage& message) {
  std::optional<PublishedRegion> published = names_.find(message.name);
  if (!published.has_value()) published = device_.names().find(message.name);
  if (!published.has_value()) return false;
  reply_with(message.request, *published);
  return true;
}

void PeerRequests::answer_parked() {
  parked_.answer([this](const LookupMessage& message) { return try_answer(message); });
}

void PeerRequests::expire_parked() {
  for (LookupMessage& message : parked_.take_expired()) {
    message.wait_ms = 0;
    lookup(message);
  }
}

void PeerRequests::open(const OpenMessage& message) {
  constexpr std::string_view kOperation = "open memory";
  const RegionDescriptor& asked = message.descriptor;
  if (asked.device_uuid != device_.uuid() || asked.epoch != device_.epoch()) {
    refuse(message.request,
           Status::error(StatusCode::kPeerRestarted, {kOperation},
                         "peer restarted: the descriptor is from another start of the device",
                         "ask the peer for a fresh descriptor"));
    return;
  }
  std::shared_ptr<RegionState> region = device_.regions()->find(asked.region_id);
  if (region == nullptr || region->closed()) {
    refuse(message.request,
           Status::error(StatusCode::kNotFound, {kOperation}, "the memory was closed by its owner",
                         "ask the peer for other memory"));
    return;
  }
  if (region->landing() != nullptr && region->landing() != &landing_) {
    refuse(
        message.request,
        Status::error(StatusCode::kPermissionDenied, {kOperation}, "only another peer may write it",
                      "ask the peer for memory that it allocated for this channel"));
    return;
  }
  reply_with(message.request, {std::move(region), {}});
}

void PeerRequests::reply_with(std::uint64_t request, const PublishedRegion& published) {
  ReplyMessage reply;
  reply.request = request;
  reply.descriptor = published.region->descriptor();
  reply.description = published.description;
  if (published.region->closed()) {
    reply.status =
        Status::error(StatusCode::kNotFound, {"open memory"}, "the memory was closed by its owner",
                      "ask the peer for other memory");
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
  reply_(reply);
}

void PeerRequests::refuse(std::uint64_t request, const Status& status) {
  ReplyMessage reply;
  reply.request = request;
  reply.status = status;
  reply_(reply);
}

}  // namespace farwrite::device
