#include "control/control_transport.h"

#include <cstdint>
#include <string>
#include <utility>

#include "base/work_queue.h"
#include "memory/staging.h"
#include "tensor/arrival_table.h"
#include "tensor/fetch.h"
#include "tensor/receive.h"
#include "tensorflow/core/platform/env.h"

namespace farwrite::plugin {
namespace {

constexpr int kTriesForRoom = 100;

void send_surely(std::shared_ptr<PeerProcess> peer, fw_device* device, ControlMessage message,
                 std::string body, int tries_for_room) {
  const absl::Status sent = send_control(*peer, device, message, body);
  if (sent.ok() || peer->ended()) return;
  if (absl::IsResourceExhausted(sent) && message.ok && --tries_for_room == 0) {
    message.ok = false;
    body = encode_status(sent);
  }
  WorkQueue::of_process().submit_later(
      kTryAgain,
      [peer = std::move(peer), device, message, body = std::move(body), tries_for_room]() mutable {
        send_surely(std::move(peer), device, message, std::move(body), tries_for_room);
      });
}

}  // namespace

bool may_be_sent(const google::protobuf::Message& message) {
  return message.ByteSizeLong() <= INT32_MAX;
}

bool parse(std::string_view body, google::protobuf::Message* message) {
  return body.size() <= INT32_MAX &&
         message->ParseFromArray(body.data(), static_cast<int>(body.size()));
}

absl::Status send_control(PeerProcess& peer, fw_device* device, ControlMessage message,
                          std::string_view body) {
  message.body_bytes = body.size();
  if (peer.takes(ControlMessage::kHeadBytes + body.size())) {
    message.body = body;
    return peer.send(encode(message), kControlTag);
  }
  message.body = {};
  auto lent = std::make_unique<Lent>();
  lent->copy = stage(device, body.data(), body.size());
  if (lent->copy == nullptr) {
    return absl::ResourceExhaustedError("Farwrite: no registered memory for a control message of " +
                                        std::to_string(body.size()) +
                                        " bytes; raise FARWRITE_SEND_LIMIT");
  }
  const void* const memory = lent->copy.get();
  const absl::Status sent =
      peer.lend(encode(message), memory, body.size(), std::move(lent), kControlTag);
  return sent.ok() ? sent : absl::UnavailableError(sent.message());
}

void send_surely(std::shared_ptr<PeerProcess> peer, fw_device* device, ControlMessage message,
                 std::string body) {
  send_surely(std::move(peer), device, message, std::move(body), kTriesForRoom);
}

void see_body(const ControlMessage& message, View lent, PeerProcess& peer, const Schedule& schedule,
              std::function<bool()> given_up,
              std::function<void(absl::Status status, std::string_view body)> seen) {
  if (lent == nullptr) {
    seen(absl::OkStatus(), message.body);
    return;
  }
  Arrival arrival;
  arrival.kind = PushKind::kSerializedLent;
  arrival.lent = std::move(lent);
  arrival.tensor_bytes = message.body_bytes;
  arrival.read_lane = peer.lane_of(message.body_bytes);
  const bool fetches = must_fetch(arrival);
  const bool waits = !fetches && !ready(arrival);
  const auto held = std::make_shared<Arrival>(std::move(arrival));
  if (fetches) {
    // Not here: it writes zeros into what it allocates.
    schedule([held, schedule, seen] {
      fetch(std::move(*held), nullptr, [schedule, seen](absl::Status status, Arrival fetched) {
        const auto body = std::make_shared<std::string>(std::move(fetched.serialized));
        schedule([seen, body, status = std::move(status)] { seen(status, *body); });
      });
    });
    return;
  }
  const auto look_at_it = [seen, held] {
    const void* data = nullptr;
    const absl::Status status = look(*held, &data);
    seen(status, {static_cast<const char*>(data), status.ok() ? held->tensor_bytes : 0});
  };
  if (waits) {
    // The first view waits for the peer.
    tsl::Env::Default()->SchedClosure([held, seen, look_at_it, given_up = std::move(given_up)] {
      const absl::Status status = wait_until_ready(*held, given_up);
      status.ok() ? look_at_it() : seen(status, {});
    });
  } else {
    schedule(look_at_it);
  }
}

}  // namespace farwrite::plugin
