// ControlReceiver: the control calls of this process in both directions, as peers' messages reach
// them.
#pragma once

#include "control/control_client.h"
#include "control/control_service.h"
#include "peer/receiver.h"

namespace farwrite::plugin {

class ControlReceiver final : public Receiver {
 public:
  explicit ControlReceiver(fw_device* device) : client_(device), service_(device) {}

  ControlClient& client() { return client_; }
  ControlService& service() { return service_; }

  absl::Status take(const std::shared_ptr<PeerProcess>& peer, std::string_view bytes,
                    View lent) override;
  void peer_ended(const std::shared_ptr<PeerProcess>& peer, const absl::Status& why) override;

 private:
  ControlClient client_;
  ControlService service_;
};

}  // namespace farwrite::plugin
