// StepReceiver: the steps of sessions in both directions, as peers' messages reach them.
#pragma once

#include "peer/receiver.h"
#include "session/step_client.h"
#include "session/step_service.h"

namespace farwrite::plugin {

class StepReceiver final : public Receiver {
 public:
  explicit StepReceiver(fw_device* device) : client_(device), service_(device) {}

  StepClient& client() { return client_; }
  StepService& service() { return service_; }

  absl::Status take(const std::shared_ptr<PeerProcess>& peer, std::string_view bytes,
                    View lent) override;
  void peer_ended(const std::shared_ptr<PeerProcess>& peer, const absl::Status& why) override;

 private:
  StepClient client_;
  StepService service_;
};

}  // namespace farwrite::plugin
