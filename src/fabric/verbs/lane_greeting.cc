#include "fabric/verbs/lane_greeting.h"

#include <poll.h>

#include <optional>
#include <utility>

#include "core/wire.h"
#include "fabric/verbs/verbs_lane.h"
#include "fabric/verbs/verbs_link.h"

namespace farwrite::fabric::verbs {

Status LaneGreeting::exchange() {
  FARWRITE_RETURN_IF_ERROR(prove_each_other());
  // The connecting side takes the last hello: once it is done, so is the other side.
  if (request_.connecting) FARWRITE_RETURN_IF_ERROR(send_hello());
  FARWRITE_RETURN_IF_ERROR(take_hello());
  return request_.connecting ? Status() : send_hello();
}

Status LaneGreeting::prove_each_other() {
  if (request_.connecting) {
    FARWRITE_RETURN_IF_ERROR(prove());
    return check_proof();
  }
  FARWRITE_RETURN_IF_ERROR(check_proof());
  return prove();
}

Status LaneGreeting::prove() {
  const core::Digest proof = lane_proof(request_.secret, request_.connecting, index_);
  return lane_.send_setup(MessageType::kProof, {proof.data(), proof.size()});
}

Status LaneGreeting::check_proof() {
  auto proof = wait_for(MessageType::kProof);
  if (!proof.ok()) return proof.status();
  const core::Digest expected = lane_proof(request_.secret, !request_.connecting, index_);
  if (core::constant_time_equal({proof->data(), proof->size()},
                                {expected.data(), expected.size()})) {
    return Status();
  }
  return link_.error(StatusCode::kUnauthenticated, "connect", "another program answers over verbs",
                     "check which program listens at the peer's RDMA address");
}

Status LaneGreeting::send_hello() {
  const std::vector<std::byte> hello = lane_.hello().to_bytes();
  return lane_.send_setup(MessageType::kHello, {hello.data(), hello.size()});
}

Status LaneGreeting::take_hello() {
  auto answer = wait_for(MessageType::kHello);
  if (!answer.ok()) return answer.status();
  auto peer = HelloMessage::from_bytes({answer->data(), answer->size()});
  if (!peer.ok()) return peer.status();
  return lane_.begin(*peer);
}

Result<std::vector<std::byte>> LaneGreeting::wait_for(MessageType type) {
  while (true) {
    pollfd waiting{lane_.arm().fd, POLLIN, 0};
    auto next = lane_.take_control();
    if (!next.ok()) return next.status();
    if (next->has_value()) {
      ControlMessage message = **std::move(next);
      if (message.header.type == type) return std::move(message.payload);
      return link_.error(StatusCode::kProtocolError, "connect", "an unexpected message",
                         core::kBrokenRule);
    }
    if (const auto event = link_.cm().take();
        event && (event->type == RDMA_CM_EVENT_DISCONNECTED ||
                  event->type == RDMA_CM_EVENT_DEVICE_REMOVAL)) {
      return link_.error(StatusCode::kUnavailable, "connect", "the peer ended the connection",
                         "see the peer's log, and connect again");
    }
    const bool given_up = request_.abandoned && request_.abandoned();
    if (given_up || request_.deadline.expired()) {
      return link_.error(
          StatusCode::kUnavailable, "connect",
          given_up ? "the peer stopped connecting over verbs" : "the peer sent no greeting in time",
          "see the peer's log");
    }
    const core::Deadline turn = request_.deadline.earlier(core::Deadline::after(kAskAgain));
    (void)::poll(&waiting, 1, turn.poll_timeout_ms());
  }
}

}  // namespace farwrite::fabric::verbs
