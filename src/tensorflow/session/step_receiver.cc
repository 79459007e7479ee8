#include "session/step_receiver.h"

#include <string>
#include <utility>

namespace farwrite::plugin {

absl::Status StepReceiver::take(const std::shared_ptr<PeerProcess>& peer, std::string_view bytes,
                                View lent) {
  StepMessage message;
  if (!decode(bytes, &message)) {
    return absl::InvalidArgumentError("it sent " + std::to_string(bytes.size()) +
                                      " bytes that are not a message of a step");
  }
  return message.kind == StepKind::kAnswer ? client_.take_answer(*peer, message, std::move(lent))
                                           : service_.take(peer, message, std::move(lent));
}

void StepReceiver::peer_ended(const std::shared_ptr<PeerProcess>& peer, const absl::Status& why) {
  client_.peer_ended(peer.get(), why);
  service_.peer_ended(peer.get());
}

}  // namespace farwrite::plugin
