// How the body of a control message leaves this process, and how it is seen at the other end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "control/control_message.h"
#include "farwrite/c_api.h"
#include "google/protobuf/message.h"
#include "peer/peer_process.h"

namespace farwrite::plugin {

// Whether protobuf can serialize it.
bool may_be_sent(const google::protobuf::Message& message);
// False if `body` is not one.
bool parse(std::string_view body, google::protobuf::Message* message);

// Sends the message with `body`: inside, or lent from a copy in registered memory. Fails without
// harm: kResourceExhausted if there is no room for the copy, else because the peer has gone or what
// it has not taken fills the queue.
absl::Status send_control(PeerProcess& peer, fw_device* device, ControlMessage message,
                          std::string_view body);
// For what a caller waits for: tries again until it has been sent or the peer has ended. An answer
// for which there is no room for a while becomes an error.
void send_surely(std::shared_ptr<PeerProcess> peer, fw_device* device, ControlMessage message,
                 std::string body);

// After what found the peer's queue full, or no room.
inline constexpr std::chrono::milliseconds kTryAgain(20);

// Runs its argument on another thread.
using Schedule = std::function<void(std::function<void()>)>;
// Calls `seen` once with the body. A body that was lent is read first, and then `seen` runs by
// `schedule`; what came inside it sees at once. A wait for a silent peer ends once `given_up`.
void see_body(const ControlMessage& message, View lent, PeerProcess& peer, const Schedule& schedule,
              std::function<bool()> given_up,
              std::function<void(absl::Status status, std::string_view body)> seen);

}  // namespace farwrite::plugin
