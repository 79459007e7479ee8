// Receiver: who takes what peers send. Each tag of a channel's messages has one, see Peers.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "base/status_bridge.h"
#include "farwrite/c_api.h"
#include "memory/remote_bytes.h"

namespace farwrite::plugin {

class PeerProcess;

// Thread-safe; lives as long as the process.
class Receiver {
 public:
  virtual ~Receiver() = default;
  // One message and what is lent with it, on a thread of the peer's channel, which it must not
  // block. The text lives until it returns. An error: the peer broke the protocol.
  virtual absl::Status take(const std::shared_ptr<PeerProcess>& peer, std::string_view message,
                            RemoteBytes lent) = 0;
  // The same for a tensor that the peer wrote into a slot.
  virtual absl::Status take_landed(const std::shared_ptr<PeerProcess>& /*peer*/,
                                   const fw_landing& landing) {
    const Landed dropped(landing.landed);
    return absl::InvalidArgumentError("it wrote a tensor that nothing here receives");
  }
  // Nothing comes from the peer any more: ends all that waits for it with `why`.
  virtual void peer_ended(const std::shared_ptr<PeerProcess>& peer, const absl::Status& why) = 0;
};

}  // namespace farwrite::plugin
