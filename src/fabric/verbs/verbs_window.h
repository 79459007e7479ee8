// VerbsWindow: how a link reaches one region of its peer.
#pragma once

#include <atomic>
#include <cstdint>

#include "fabric/fabric.h"

namespace farwrite::fabric::verbs {

class VerbsWindow final : public RemoteWindow {
 public:
  std::uint64_t address = 0;  // of the region's first byte, in the peer's memory
  std::uint32_t remote_key = 0;
  // The peer has closed the region. Looked at under the lane's lock, so that behind the lane's
  // kRevoked nothing more is posted.
  std::atomic<bool> revoked{false};
};

}  // namespace farwrite::fabric::verbs
