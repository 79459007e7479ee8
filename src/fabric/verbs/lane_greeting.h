// LaneGreeting: proofs and hellos on one lane, once its connection is made (protocol.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/attach_request.h"
#include "fabric/verbs/protocol.h"
#include "farwrite/status.h"

namespace farwrite::fabric::verbs {

class VerbsLane;
class VerbsLink;

// Runs in the thread that attaches, before the lane is used.
class LaneGreeting {
 public:
  // All of them outlive it. `index` is the lane's.
  LaneGreeting(VerbsLink& link, VerbsLane& lane, std::uint16_t index, const AttachRequest& request)
      : link_(link), lane_(lane), index_(index), request_(request) {}

  // Ok: each side has proven itself, and the lane may send. Otherwise the sentence says why not.
  Status exchange();

 private:
  Status prove_each_other();
  Status prove();
  Status check_proof();
  Status send_hello();
  Status take_hello();
  // Waits for the peer's next message, which must be of this type.
  Result<std::vector<std::byte>> wait_for(MessageType type);

  VerbsLink& link_;
  VerbsLane& lane_;
  const std::uint16_t index_;
  const AttachRequest& request_;
};

}  // namespace farwrite::fabric::verbs
