#include "control/control_receiver.h"

#include <string>
#include <utility>

namespace farwrite::plugin {

absl::Status ControlReceiver::take(const std::shared_ptr<PeerProcess>& peer, std::string_view bytes,
                                   View lent) {
  ControlMessage message;
  if (!decode(bytes, &message)) {
    return absl::InvalidArgumentError("it sent " + std::to_string(bytes.size()) +
                                      " bytes that are not a control message");
  }
  return message.kind == ControlKind::kAnswer ? client_.take_answer(*peer, message, std::move(lent))
                                              : service_.take(peer, message, std::move(lent));
}

void ControlReceiver::peer_ended(const std::shared_ptr<PeerProcess>& peer,
                                 const absl::Status& why) {
  client_.peer_ended(peer.get(), why);
  service_.peer_ended(peer.get());
}

}  // namespace farwrite::plugin
