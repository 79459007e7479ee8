// CallReceiver: the calls of this process in both directions, as peers' messages reach them.
#pragma once

#include "call/call_client.h"
#include "call/call_service.h"
#include "peer/receiver.h"

namespace farwrite::plugin {

class CallReceiver final : public Receiver {
 public:
  explicit CallReceiver(fw_device* device) : client_(device), service_(device) {}

  CallClient& client() { return client_; }
  CallService& service() { return service_; }

  absl::Status take(const std::shared_ptr<PeerProcess>& peer, std::string_view bytes,
                    RemoteBytes lent) override;
  void peer_ended(const std::shared_ptr<PeerProcess>& peer, const absl::Status& why) override;

 private:
  CallClient client_;
  CallService service_;
};

}  // namespace farwrite::plugin
