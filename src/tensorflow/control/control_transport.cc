#include "control/control_transport.h"

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include "memory/staging.h"
#include "rendezvous/arrival_table.h"
#include "server/work_queue.h"
#include "tensorflow/core/platform/env.h"
#include "tensors/fetch.h"
#include "tensors/receive.h"

namespace farwrite::plugin {
namespace {

constexpr std::chrono::milliseconds kTryAgain(20);

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
  message.body = body;
  const std::string whole = encode(message);
  if (peer.takes(whole)) return peer.send(whole, kControlTag);
  auto lent = std::make_unique<Lent>();
  lent->copy = stage(device, body.data(), body.size());
  if (lent->copy == nullptr) {
    return absl::ResourceExhaustedError("Farwrite: no registered memory for a control message of " +
                                        std::to_string(body.size()) +
                                        " bytes; raise FARWRITE_SEND_LIMIT");
  }
  message.body = {};
  const void* const memory = lent->copy.get();
  return peer.lend(encode(message), memory, body.size(), std::move(lent), kControlTag);
}

void send_surely(std::shared_ptr<PeerProcess> peer, fw_device* device, ControlMessage message,
                 std::string body) {
  const absl::Status sent = send_control(*peer, device, message, body);
  if (sent.ok() || peer->ended()) return;
  if (absl::IsResourceExhausted(sent) && message.ok) {
    message.ok = false;
    body = encode_status(sent);
  }
  WorkQueue::of_process().submit_after(
      kTryAgain, [peer = std::move(peer), device, message, body = std::move(body)]() mutable {
        WorkQueue::of_process().submit(
            [peer = std::move(peer), device, message, body = std::move(body)]() mutable {
              send_surely(std::move(peer), device, message, std::move(body));
            });
      });
}

void see_body(const ControlMessage& message, View lent, PeerProcess& peer,
              std::function<void(absl::Status status, std::string_view body)> seen) {
  if (lent == nullptr) {
    seen(absl::OkStatus(), message.body);
    return;
  }
  Arrival arrival;
  arrival.kind = PushKind::kSerializedLent;
  arrival.lent = std::move(lent);
  arrival.tensor_bytes = message.body_bytes;
  arrival.read_lane = peer.read_lane();
  if (must_fetch(arrival)) {
    // Not here: it writes zeros into what it allocates.
    WorkQueue::of_process().submit([seen, lying = std::make_shared<Arrival>(std::move(arrival))] {
      fetch(std::move(*lying), nullptr, [seen](absl::Status status, Arrival fetched) {
        auto body = std::make_shared<std::string>(std::move(fetched.serialized));
        WorkQueue::of_process().submit(
            [seen, body, status = std::move(status)] { seen(status, *body); });
      });
    });
    return;
  }
  const bool at_once = ready(arrival);
  const auto held = std::make_shared<Arrival>(std::move(arrival));
  const auto look_at_it = [seen, held] {
    const void* data = nullptr;
    const absl::Status status = look(*held, &data);
    seen(status, {static_cast<const char*>(data), status.ok() ? held->tensor_bytes : 0});
  };
  if (at_once) {
    WorkQueue::of_process().submit(look_at_it);
  } else {
    tsl::Env::Default()->SchedClosure(look_at_it);  // the first view waits for the peer
  }
}

}  // namespace farwrite::plugin
