#include "call/call_receiver.h"

#include <string>
#include <utility>

namespace farwrite::plugin {

absl::Status CallReceiver::take(const std::shared_ptr<PeerProcess>& peer, std::string_view bytes,
                                RemoteBytes lent) {
  CallMessage message;
  if (!decode(bytes, &message)) {
    return absl::InvalidArgumentError("it sent " + std::to_string(bytes.size()) +
                                      " bytes that are not a message of a call");
  }
  return message.kind == CallKind::kAnswer ? client_.take_answer(*peer, message, std::move(lent))
                                           : service_.take(peer, message, std::move(lent));
}

void CallReceiver::peer_ended(const std::shared_ptr<PeerProcess>& peer, const absl::Status& why) {
  client_.peer_ended(peer.get(), why);
  service_.peer_ended(peer.get());
}

}  // namespace farwrite::plugin
